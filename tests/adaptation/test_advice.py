"""Many candidates are tried on one set of validation pairs: how often does the advice err?"""

import re

import numpy as np
import pytest
from scipy import stats

from isospace.adaptation.candidates import BASE_MODEL, Candidate
from isospace.adaptation.selection import advice, allowed_candidates
from isospace.statistics.gains import gain, mean_scores
from isospace.statistics.selection import (
    SelectedAmong,
    added_by_selecting,
    best_other,
    best_position,
    gain_of_selected,
)
from isospace.statistics.verdict import VerdictKind, base_kept, kind_of, verdict_of

CANDIDATES, GROUPS, SIZE = 20, 150, 2


def drawn(rng, true_gains):
    """(candidate, pair) reciprocal ranks of the base model and the candidates; pairs of a group move together."""
    groups = np.repeat(np.arange(GROUPS), SIZE)
    start = rng.beta(0.6, 0.6, GROUPS * SIZE)
    moved = rng.normal(0, 0.15, (len(true_gains), GROUPS))[:, groups]
    moved += rng.normal(0, 0.15, (len(true_gains), GROUPS * SIZE))
    values = np.concatenate([start[None], start + moved + np.array(true_gains)[:, None]])
    displacement = np.zeros((2, 1, GROUPS * SIZE))
    return [mean_scores(row[None], groups, displacement) for row in values]


COUNTS = pytest.mark.parametrize("cases", [120, pytest.param(2000, marks=pytest.mark.exhaustive)])


def most(cases, level):
    """Errors that so many cases have in 99 % of the times, at most."""
    return stats.binom.ppf(0.99, cases, level)


def adapted(found):
    return kind_of(found) is VerdictKind.ADAPTED


@COUNTS
def test_evaluations_count_where_the_same_pairs_select_and_test(cases):
    """Too few pairs to split: they select the checkpoint, then the candidate, and test it.

    `unseen` are the evaluations that were not kept; `flattered` is the bias of selecting among
    them. Nothing gains anything.
    """
    rng = np.random.default_rng(3)
    maps, evaluations = 2, 40
    wrong = without_unseen = 0
    told, without_flattered = [], []
    for _ in range(cases):
        start, *others = drawn(rng, [0.0] * (maps + evaluations))
        tried = [start, *others[maps:]]
        candidates = [start, *others[:maps], tried[best_other(tried)]]
        place = best_position(candidates)
        if place == 0:
            continue
        flattered = added_by_selecting(tried) if place > maps else 0.0
        found = gain_of_selected(SelectedAmong(candidates, place, evaluations - 1, flattered))
        wrong += adapted(found)
        without_unseen += adapted(gain_of_selected(SelectedAmong(candidates, place)))
        told.append(found.mean)
        without_flattered.append(found.mean + flattered)
    assert wrong <= most(cases, 0.025)
    assert without_unseen > most(cases, 0.025)
    error = np.std(told) / np.sqrt(len(told))
    assert np.mean(told) < 3 * error
    assert np.mean(without_flattered) > 3 * error


@COUNTS
def test_what_may_be_lost_elsewhere_is_chosen_by_one_part_and_told_by_another(cases):
    """All candidates lose more than they may; some seem not to, and one of these is taken.

    Then neither the advice errs more often than its level says, nor what is told of the loss.
    """
    rng = np.random.default_rng(4)
    lost = 0.035
    taken = wrong = untold = untold_by_what_chose = 0
    for _ in range(cases):
        home, away = drawn(rng, [0.0] * CANDIDATES), drawn(rng, [-lost] * CANDIDATES)
        states = [BASE_MODEL, *map(Candidate, range(1, CANDIDATES + 1))]
        found = dict(zip(states, away, strict=True))
        changes = {state: {"away": gain(own, away[0])} for state, own in found.items()}
        places = [list(found).index(state) for state in allowed_candidates(changes, max_drop=0.5)]
        place = places[best_position([home[at] for at in places])]
        if place == 0:
            continue
        taken += 1
        judging, told = drawn(rng, [0.0] * CANDIDATES), drawn(rng, [-lost] * CANDIDATES)
        wrong += adapted(gain(judging[place], judging[0]))
        judge, chose = gain(told[place], told[0]), gain(away[place], away[0])
        untold += not judge.low <= -lost <= judge.high
        untold_by_what_chose += not chose.low <= -lost <= chose.high
    assert taken > cases / 10
    assert wrong <= most(cases, 0.025)
    assert untold <= most(taken, 0.05)
    assert untold_by_what_chose > most(taken, 0.05)


def judged(gains, groups):
    """Return the verdict on pairs that gain so much each."""
    before = mean_scores(np.full((1, len(gains)), 0.5), groups)
    after = mean_scores(0.5 + np.array(gains)[None], groups)
    return verdict_of(gain(after, before), "MRR", "groups of documents")


def test_what_would_tell_is_said_in_documents():
    """By hand: 40 documents whose pairs gain 0.3 or lose 0.26: mean 0.02, deviation 0.28."""
    gains = [0.3, -0.26] * 40
    verdict = judged(sorted(gains), np.arange(80) // 2)
    assert verdict.kind is VerdictKind.CANNOT_TELL
    said = advice(verdict, "groups of documents")
    found = verdict.gain
    half = (found.high - found.low) / 2 * (1.96 + 0.84) / 1.96
    documents = 40 * (half / 0.02) ** 2
    number = int(re.search(r"about ([\d,]+) documents like these 40,", said)[1].replace(",", ""))
    assert documents <= number <= 1.1 * documents


def test_nothing_is_advised_where_the_verdict_tells_enough():
    noise = np.tile([0.001, -0.001], 200)
    kinds = {0.3: VerdictKind.ADAPTED, 0.0: VerdictKind.TOO_SMALL, -0.2: VerdictKind.KEEP_BASE}
    for each, kind in kinds.items():
        verdict = judged(each + noise, np.arange(400))
        assert verdict.kind is kind
        assert advice(verdict, "groups") == ""


def test_where_the_base_model_is_kept_own_pairs_are_advised():
    said = advice(base_kept("no candidate is better", "MRR"), "groups")
    assert "40 or more pairs of your own" in said
