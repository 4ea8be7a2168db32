"""The passes of a run: an objective's plan over one text, and over pairs in both directions."""

from __future__ import annotations

import pytest

from isospace.config import TrainConfig
from isospace.objectives import OBJECTIVES, OffDropout, SimCSE, WhitenedCSE
from isospace.objectives.base import View
from isospace.training.plan import Plan

FIRST, SECOND = View(text=0), View(text=1)


def test_over_single_texts_it_is_the_objective_s_own():
    plan = Plan.of(TrainConfig(objective=OffDropout()))
    assert plan == Plan(OffDropout().views, ((0, 1, 2),), 1)


@pytest.mark.parametrize(
    ("objective", "views", "ways"),
    [
        (SimCSE(), [FIRST, SECOND], [[FIRST, SECOND], [SECOND, FIRST]]),
        (
            WhitenedCSE(num_views=3),
            [FIRST, FIRST, SECOND, SECOND],
            [[FIRST, SECOND, SECOND], [SECOND, FIRST, FIRST]],
        ),
        (
            OffDropout(),
            [FIRST, SECOND, View(0.0, 0), View(0.0, 1)],
            [[FIRST, SECOND, View(0.0, 1)], [SECOND, FIRST, View(0.0, 0)]],
        ),
    ],
)
def test_over_pairs_both_directions_share_their_passes(objective, views, ways):
    plan = Plan.of(TrainConfig(objective=objective, views="pairs"))
    assert sorted(plan.views, key=str) == sorted(views, key=str)
    assert [[plan.views[place] for place in way] for way in plan.ways] == ways
    assert all(len(set(way)) == len(way) for way in plan.ways)  # no pass stands for two views
    assert plan.texts == 2


def test_rows_whose_views_differ_by_more_than_dropout_take_no_pairs():
    takers = {name for name, kind in OBJECTIVES.items() if kind().takes_pairs}
    assert {"simcse", "whitenedcse", "simcse++", "iso", "mixcse", "barlow-twins"} <= takers
    refusing = {"scd", "esimcse", "diffcse", "pcl", "tsdae", "consert", "ct", "declutr"}
    assert not takers & refusing
    assert not SimCSE(supervision="pairs").takes_pairs
    assert not WhitenedCSE(positives="permutation").takes_pairs
