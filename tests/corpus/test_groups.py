"""Rows that belong together, and splits that keep them so."""

from __future__ import annotations

import random

import numpy as np
import pytest

from isospace.corpus.groups import (
    SMALLEST_SPLIT,
    group_names,
    split_groups,
)


def test_names_follow_the_content():
    groups = np.array([0, 1, 0, 2])
    hashes = np.array([[4, 1], [5, 1], [3, 9], [1, 1]], dtype=np.uint64)
    names = group_names(groups, hashes)
    assert names[0] == names[2]
    assert len(set(names)) == 3
    order = [2, 3, 1, 0]
    assert group_names(np.array([5, 0, 7, 5]), hashes[order]) == [names[i] for i in order]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_split_keeps_groups_whole_and_at_most_a_third_validates(size):
    groups = [f"group {i // size}" for i in range(900)]
    validation, test = split_groups(groups)
    assert sorted([*validation, *test]) == list(range(900))
    assert 300 - size < len(validation) <= 300
    assert not {groups[i] for i in validation} & {groups[i] for i in test}
    shuffled = random.Random(3).sample(range(900), 900)
    again = split_groups([groups[i] for i in shuffled])[0]
    assert {groups[shuffled[i]] for i in again} == {groups[i] for i in validation}


@pytest.mark.parametrize(
    "groups",
    [
        [str(i) for i in range(SMALLEST_SPLIT - 1)],
        ["one"] * 600,
        [str(i // 300) for i in range(600)],
        [],
    ],
)
def test_what_cannot_be_split_is_validation_and_test(groups):
    validation, test = split_groups(groups)
    assert validation.tolist() == test.tolist() == list(range(len(groups)))
