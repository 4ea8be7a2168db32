"""What a state may lose elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from isospace.adaptation.candidates import BASE_MODEL, Candidate, allowed_candidates
from isospace.statistics.gains import gain
from isospace.statistics.influence import mean_scores


def change(points):
    """The gain of so many points over nothing, on ten items."""
    items = np.full((1, 10), points / 100)
    groups = np.arange(10)
    return gain(mean_scores(items, groups), mean_scores(np.zeros((1, 10)), groups))


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({}, True),
        ({"docstrings": -0.9, "definitions": 0.1}, True),  # -0.4 on average
        ({"docstrings": -0.9, "definitions": -0.2}, False),
        ({"definitions": -0.6}, False),
        ({"docstrings": 2.0, "definitions": 2.0, "wiki": -0.6}, False),  # the user's own
        ({"docstrings": -0.4, "definitions": -0.4, "wiki": -0.4}, True),
    ],
)
def test_carried_sets_are_bounded_by_their_mean_and_others_one_by_one(changes, allowed):
    state = Candidate(0.5)
    gains = {name: change(points) for name, points in changes.items()}
    found = allowed_candidates({BASE_MODEL: {}, state: gains}, max_drop=0.5)
    assert found == ([BASE_MODEL, state] if allowed else [BASE_MODEL])
