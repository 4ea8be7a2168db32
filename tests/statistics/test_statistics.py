"""Paired bootstrap against a dull loop and against simulated truth; the three verdicts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from isospace.statistics import bootstrap as statistics
from isospace.statistics.bootstrap import (
    Interval,
    PairSet,
    VerdictKind,
    judge,
    paired_bootstrap,
    resampled_spearmans,
)


def test_the_resampled_ranks_are_those_of_the_drawn_items(monkeypatch):
    monkeypatch.setattr(statistics, "_CHUNK_ENTRIES", 100)  # several chunks
    random = np.random.default_rng(1)
    before, after = random.integers(0, 8, (2, 30)).astype(float)
    gold = random.integers(0, 6, 30).astype(float)
    resamples = 60

    expected = []
    for counts in statistics._counts(30, resamples, seed=3):
        for row in counts.astype(int):
            drawn = np.repeat(np.arange(30), row)
            assert len(drawn) == 30
            rho = [scipy.stats.spearmanr(v[drawn], gold[drawn]).statistic for v in (before, after)]
            expected.append(rho)
    [found] = resampled_spearmans(
        [PairSet(np.stack([before, after]), gold, np.arange(30))], resamples, seed=3
    )
    assert pytest.approx(np.array(expected)) == found.T


def test_a_pair_of_several_sets_is_drawn_for_all_of_them():
    random = np.random.default_rng(2)
    cosines, gold = random.normal(size=(2, 40)), random.normal(size=40)
    ids = 7 * np.arange(40)
    one, turned, other = (
        PairSet(cosines[:, order], gold[order], ids[order] + shift)
        for order, shift in ((np.arange(40), 0), (np.arange(40)[::-1], 0), (np.arange(40), 1))
    )
    found = resampled_spearmans([one, turned, other], 50, seed=0)
    assert found[0] == pytest.approx(found[1])
    assert abs(np.corrcoef(found[0][0], found[2][0])[0, 1]) < 0.5
    twice = PairSet(*(np.concatenate([a, a], axis=-1) for a in (cosines, gold, ids)))
    assert resampled_spearmans([twice], 50, seed=0)[0] == pytest.approx(
        resampled_spearmans([one], 50, seed=0)[0], abs=0.05
    )


def test_the_interval_of_a_mean_is_that_of_the_normal_theory():
    random = np.random.default_rng(0)
    before = random.uniform(size=2000)
    after = before + random.normal(0.05, 0.4, size=2000)
    result = paired_bootstrap(before, after)
    difference = after - before
    half = 1.96 * difference.std() / np.sqrt(2000)
    assert result.gain == pytest.approx(difference.mean())
    assert result.low == pytest.approx(difference.mean() - half, abs=0.0015)
    assert result.high == pytest.approx(difference.mean() + half, abs=0.0015)
    assert result.p < 0.001


def test_the_seed_decides_the_interval():
    random = np.random.default_rng(0)
    before, after = random.normal(size=(2, 50))
    assert paired_bootstrap(before, after, 500, 1) == paired_bootstrap(before, after, 500, 1)
    assert paired_bootstrap(before, after, 500, 1) != paired_bootstrap(before, after, 500, 2)


def test_equal_scores_have_no_gain_and_constant_cosines_no_rank():
    scores = np.random.default_rng(0).uniform(size=40)
    assert paired_bootstrap(scores, scores, 200) == Interval(0.0, 0.0, 0.0, 1.0, 40)
    pairs = PairSet(np.stack([scores, np.ones(40)]), scores, np.arange(40))
    [[same, collapsed]] = resampled_spearmans([pairs], 200, 0)
    assert same == pytest.approx(np.ones(200))
    assert collapsed == pytest.approx(np.zeros(200))


def test_without_an_effect_one_interval_in_twenty_excludes_zero():
    random = np.random.default_rng(7)
    trials, n = 400, 120
    latent, noise = random.normal(size=(trials, n)), random.normal(size=(2, trials, n))
    intervals = [paired_bootstrap(a, b, 400) for a, b in zip(*(latent + noise), strict=True)]
    rate = np.mean([interval.low > 0 or interval.high < 0 for interval in intervals])
    # Three standard errors of a rate of 5 % in 400 trials are 3.3 %.
    assert 0.017 < rate < 0.083
    assert 0.017 < np.mean([interval.p < 0.05 for interval in intervals]) < 0.083


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((3, 1), (3, 1)), ((1,), (1,))])
def test_scores_of_different_items_are_refused(shapes):
    with pytest.raises(ValueError, match="the same two or more items"):
        paired_bootstrap(*(np.ones(shape) for shape in shapes))


def simulated(gain):
    random = np.random.default_rng(0)
    before = random.uniform(size=2000)
    return paired_bootstrap(before, before + random.normal(gain, 0.1, size=2000), 1000)


@pytest.mark.parametrize(
    ("interval", "start_kept", "kind", "words"),
    [
        (simulated(0.0), None, VerdictKind.NO_DIFFERENCE, "includes zero"),
        (
            simulated(0.006),
            None,
            VerdictKind.NO_DIFFERENCE,
            "less than the 1.00 points worth having",
        ),
        (simulated(0.05), None, VerdictKind.ADAPTED, "lies above zero"),
        (simulated(-0.05), None, VerdictKind.KEEP_START, "worse"),
        (Interval(0.04, -0.01, 0.09, 0.1, 20), None, VerdictKind.NO_DIFFERENCE, "includes zero"),
        (
            Interval(0.0, 0.0, 0.0, 1.0, 20),
            "nothing beats it",
            VerdictKind.KEEP_START,
            "nothing beats it",
        ),
    ],
)
def test_the_three_verdicts(interval, start_kept, kind, words):
    verdict = judge(interval, "MRR, held-out pairs", start_kept)
    assert verdict.kind is kind
    assert words in verdict.text


def test_the_sentence_says_gain_interval_protocol_and_n():
    text = judge(Interval(0.0312, 0.0204, 0.0419, 0.0002, 2000), "MRR, held-out pairs").text
    assert text == (
        "Adapted: +3.12 points (95 % interval +2.04 to +4.19) in MRR, held-out pairs, n = 2,000; "
        "the interval lies above zero and the gain is at least 1.00 points."
    )
