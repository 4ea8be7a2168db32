"""Many rungs are tried on one set of pairs that choose: how often does the advice err?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isospace.statistics.choosing import choose, judge_chosen
from isospace.statistics.gains import gain
from isospace.statistics.influence import mean_scores
from isospace.statistics.verdict import VerdictKind, kind_of

CASES, RUNGS, GROUPS, SIZE = 400, 20, 150, 2


def drawn(rng, true_gains):
    """(rung, pair) reciprocal ranks of the start and the rungs; pairs of a group move together."""
    groups = np.repeat(np.arange(GROUPS), SIZE)
    start = rng.beta(0.6, 0.6, GROUPS * SIZE)
    moved = rng.normal(0, 0.15, (len(true_gains), GROUPS))[:, groups]
    moved += rng.normal(0, 0.15, (len(true_gains), GROUPS * SIZE))
    values = np.concatenate([start[None], start + moved + np.array(true_gains)[:, None]])
    burdens = np.zeros((2, 1, GROUPS * SIZE))
    return [mean_scores(row[None], groups, burdens) for row in values]


@pytest.mark.parametrize("split", [True, False])
def test_what_gains_nothing_is_advised_as_rarely_as_the_level_says(split):
    """All rungs are as good as the start: one-sided, 2.5 % of the cases may be called adapted."""
    rng = np.random.default_rng(0)
    adapted = 0
    for _ in range(CASES):
        choosing = drawn(rng, [0.0] * RUNGS)
        place = choose(choosing)
        if place == 0:
            continue
        if split:
            judging = drawn(rng, [0.0] * RUNGS)
            found = gain(judging[place], judging[0])
        else:
            found = judge_chosen(choosing, place)
        adapted += kind_of(found) is VerdictKind.ADAPTED
    assert adapted <= stats.binom.ppf(0.99, CASES, 0.025)


def test_a_rung_that_gains_is_found_and_the_judged_gain_is_not_flattered():
    rng = np.random.default_rng(1)
    true = [0.0] * (RUNGS - 1) + [0.05]
    told, chose = [], []
    for _ in range(60):
        place = choose(drawn(rng, true))
        judging = drawn(rng, true)
        if place:
            told.append(gain(judging[place], judging[0]).mean - true[place - 1])
        chose.append(place == RUNGS)
    assert np.mean(chose) > 0.8
    assert abs(np.mean(told)) < 3 * np.std(told) / np.sqrt(len(told))
