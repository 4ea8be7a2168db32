"""Gains over seeds and items: right on constructed cases, and at the nominal error rate."""

import numpy as np
import pytest
from scipy import stats

from isospace.statistics.bootstrap import SMALLEST_GAIN
from isospace.statistics.decision import against_best, decide, holm, welch
from isospace.statistics.gains import Gain, Gains, sample_means, sample_spearmans


def gain_of_means(before, after):
    sampled = sample_means({"start": before[None], "after": after})
    return sampled["after"].over(sampled["start"]).test()


def gain_of_spearman(sets, column="Avg"):
    """Of sets of (before, after, gold), or (before, after, gold, ids)."""
    rows = {"start": {}, "after": {}}
    gold, ids = {}, {}
    for number, (before, after, scores, *known) in enumerate(sets):
        rows["start"][str(number)], rows["after"][str(number)] = before[None], after
        gold[str(number)] = scores
        ids[str(number)] = known[0] if known else 10_000 * number + np.arange(len(scores))
    sampled = sample_spearmans(rows, gold, ids)
    return sampled["after"][column].over(sampled["start"][column]).test()


def _world(source, effect, seeds=5, items=300, seed_sd=0.01, item_sd=0.1, noise=0.1):
    """Scores of a start and of `seeds` encoders whose expected gain is `effect`."""
    before = source.normal(0.5, 0.2, items)
    gains = effect + source.normal(0, seed_sd, (seeds, 1)) + source.normal(0, item_sd, items)
    return before, before + gains + source.normal(0, noise, (seeds, items))


@pytest.mark.parametrize(
    ("seeds", "seed_sd", "item_sd"),
    [
        (5, 0.02, 0.02),
        pytest.param(5, 0.005, 0.2, marks=pytest.mark.exhaustive),
        pytest.param(3, 0.01, 0.1, marks=pytest.mark.exhaustive),
        # Few seeds that agree by chance say little of how far seeds differ.
        pytest.param(3, 0.02, 0.045, marks=pytest.mark.exhaustive),
        (2, 0.02, 0.055),
        pytest.param(2, 0.02, 0.2, marks=pytest.mark.exhaustive),
        (1, 0.0, 0.2),
    ],
)
def test_without_an_effect_one_in_twenty_is_significant(seeds, seed_sd, item_sd, monkeypatch):
    monkeypatch.setattr("isospace.statistics.gains.RESAMPLES", 400)
    source, worlds = np.random.default_rng(0), 600
    wrong = 0
    for _ in range(worlds):
        gain = gain_of_means(*_world(source, 0.0, seeds, 150, seed_sd, item_sd, noise=0.05))
        assert (gain.p < 0.05) == (gain.low > 0 or gain.high < 0)
        wrong += gain.p < 0.05
    # Nominal 30 of 600; what is counted twice, and small seeds, may lower it, nothing may raise it.
    assert 3 <= wrong <= 30 + 3 * (600 * 0.05 * 0.95) ** 0.5


def test_several_comparisons_together_keep_their_error_rate(monkeypatch):
    monkeypatch.setattr("isospace.statistics.gains.RESAMPLES", 400)
    source, worlds, wrong = np.random.default_rng(1), 250, 0
    for _ in range(worlds):
        gains = {name: gain_of_means(*_world(source, 0.0, 3, 150, 0.03, 0.3)) for name in "abcd"}
        wrong += decide(gains, dict.fromkeys("abcd", 0.0), "a test").name is not None
    # Gains alone are called: half of the nominal 5 %. Without Holm there would be about 17.
    assert wrong <= worlds * 0.025 + 3 * (worlds * 0.025 * 0.975) ** 0.5


def test_four_gains_that_chance_could_have_made_advise_none():
    gain = Gain(mean=0.05, sd=0.01, seeds=3, items=100, low=0.01, high=0.09, p=0.02)
    assert decide({"a": gain}, {"a": 0.0}, "MRR").name == "a"
    assert decide(dict.fromkeys("abcd", gain), dict.fromkeys("abcd", 0.0), "MRR").name is None


def test_verdicts_on_constructed_cases():
    source = np.random.default_rng(2)

    def gain(effect):
        return gain_of_means(*_world(source, effect, 5, 3000, 0.002, 0.05, 0.05))

    criterion = {"a": 0.6, "b": 0.7, "c": 0.8}
    nothing = decide({"a": gain(0.0), "b": gain(0.0)}, criterion, "MRR")
    tiny = gain(0.6 * SMALLEST_GAIN)
    small = decide({"a": tiny, "b": gain(0.0)}, criterion, "MRR")
    gains = {"a": gain(0.06), "b": gain(0.05), "c": gain(0.0)}
    large = decide(gains, criterion, "MRR", "Spearman on dev")
    worse = decide({"a": gain(-0.05), "b": gain(-0.02)}, criterion, "MRR")
    assert nothing.verdict == small.verdict == "no difference worth having"
    assert tiny.p < 0.025  # of two comparisons: significant and yet not worth having
    assert (large.verdict, large.name) == ("adapt with b", "b")  # the criterion's, not the test's
    assert worse.verdict == "keep the start"
    assert "+5." in large.text
    assert large.text.endswith(
        "Holm's correction over 3 comparisons; of 2 that gain enough it has the highest Spearman on "
        f"dev (a gains most, {100 * gains['a'].mean:+.2f})."
    )
    assert worse.text.startswith("Keep the start: every encoder is worse; nearest b, -")


def test_what_began_elsewhere_must_gain_over_its_own_start():
    """A better encoder that adaptation made worse is taken as it is."""
    source = np.random.default_rng(7)

    def gain(effect):
        return gain_of_means(*_world(source, effect, 5, 3000, 0.002, 0.05, 0.05))

    gains = {"a": gain(0.03), "start of b": gain(0.18), "b": gain(0.11)}
    criterion = {"a": 0.5, "start of b": 0.6, "b": 0.7}
    unadapted = ["start", "start of b"]
    worse = decide(gains, criterion, "MRR", "dev", {"b": gain(-0.07)}, unadapted)
    assert (worse.verdict, worse.name) == ("take start of b", "start of b")
    assert worse.text.startswith("Take start of b as it is: +17.")
    better = decide(gains, criterion, "MRR", "dev", {"b": gain(0.07)}, unadapted)
    assert better.verdict == "adapt with b"
    # What it lacks is said where the gain over the first start is enough.
    gains = {"a": gain(0.0), "start of b": gain(0.002), "b": gain(0.03)}
    lacking = decide(gains, criterion, "MRR", "dev", {"b": gain(0.003)}, unadapted)
    assert lacking.verdict == "no difference worth having"
    assert "the largest gain is b's, +2.92" in lacking.text
    assert "and as much over its own start, where it is +0.30" in lacking.text


def test_where_every_run_kept_its_start_another_worse_start_changes_nothing():
    before = np.linspace(0, 1, 50)
    same = gain_of_means(before, before[None])
    worse = gain_of_means(before, before[None] - 0.3)
    gains = {"a": same, "start of b": worse, "b": worse}
    found = decide(
        gains, dict.fromkeys(gains, 0.0), "MRR", "dev", {"b": same}, ["start of b"], start_kept=True
    )
    assert found.verdict == "keep the start"


def test_where_every_run_kept_the_start_so_do_we():
    before = np.linspace(0, 1, 50)
    gain = gain_of_means(before, np.stack([before, before]))
    gains, criterion = {"a": gain, "b": gain}, {"a": 0.0, "b": 0.0}
    found = decide(gains, criterion, "MRR", start_kept=True)
    assert found.verdict == "keep the start"
    assert found.text == "Keep the start: every run preferred its start to its checkpoints; MRR."
    # Adapted encoders that move no test item are something else.
    assert decide(gains, criterion, "MRR").verdict == "no difference worth having"


def test_the_sts_average_keeps_its_error_rate(monkeypatch):
    """Encoders of one start, correlations on several sets, no true gain in any."""
    monkeypatch.setattr("isospace.statistics.gains.RESAMPLES", 200)
    source, worlds, wrong = np.random.default_rng(8), 200, 0
    for _ in range(worlds):
        sets = []
        for _ in range(3):
            gold = source.normal(size=120)
            # Each encoder, the start too, is gold and noise of its own, of one size.
            before, *after = gold + source.normal(size=(4, 120))
            sets.append((before, np.stack(after), gold))
        wrong += gain_of_spearman(sets).p < 0.05
    assert wrong <= worlds * 0.05 + 3 * (worlds * 0.05 * 0.95) ** 0.5


def test_sets_that_share_pairs_keep_the_error_rate_of_their_average(monkeypatch):
    """As STS-B shares its pairs with STS12 to STS16; drawn apart, 8 % would be significant."""
    monkeypatch.setattr("isospace.statistics.gains.RESAMPLES", 200)
    source, worlds, wrong = np.random.default_rng(9), 600, 0
    for _ in range(worlds):
        gold = source.normal(size=160)
        before, after = gold + source.normal(size=(2, 160))
        parts = [np.arange(80), np.arange(80, 160), np.arange(40, 120)]
        sets = [(before[part], after[None, part], gold[part], part) for part in parts]
        wrong += gain_of_spearman(sets).p < 0.05
    assert 30 - 3 * (600 * 0.05 * 0.95) ** 0.5 <= wrong <= 30 + 3 * (600 * 0.05 * 0.95) ** 0.5


def test_a_pair_that_is_in_two_sets_is_drawn_for_both():
    source = np.random.default_rng(10)
    gold, after = source.normal(size=(2, 40))
    rows = {"after": {"one": after[None], "same": after[None], "other": after[None]}}
    ids = {"one": np.arange(40), "same": np.arange(40), "other": 40 + np.arange(40)}
    found = sample_spearmans(rows, dict.fromkeys(ids, gold), ids)["after"]
    np.testing.assert_array_equal(found["one"].resampled, found["same"].resampled)
    assert not np.allclose(found["one"].resampled, found["other"].resampled)


def test_one_seed_is_judged_by_its_items_alone():
    source = np.random.default_rng(3)
    before, after = _world(source, 0.02, seeds=1, items=500)
    gain = gain_of_means(before, after)
    plain = stats.ttest_rel(after[0], before)
    assert gain.sd is None
    assert gain.p == pytest.approx(plain.pvalue, rel=0.2)
    low, high = plain.confidence_interval()
    assert (gain.low, gain.high) == pytest.approx((low, high), abs=0.001)


def test_where_only_seeds_differ_it_is_the_t_test_over_seeds():
    before = np.linspace(0, 1, 50)
    by_seed = np.array([0.01, 0.03, 0.02])
    gain = gain_of_means(before, before + by_seed[:, None])
    assert gain.p == pytest.approx(stats.ttest_1samp(by_seed, 0.0).pvalue, rel=1e-6)
    assert gain.sd == pytest.approx(0.01)


def test_equal_gains_need_no_spread():
    before = np.linspace(0, 1, 50)
    gain = gain_of_means(before, np.stack([before, before]))
    assert (gain.mean, gain.low, gain.high, gain.p) == (0.0, 0.0, 0.0, 1.0)


def test_gain_of_spearman_is_the_mean_over_seeds():
    source = np.random.default_rng(4)
    gold = source.normal(size=400)
    before = gold + source.normal(size=400)
    after = gold + 0.5 * source.normal(size=(3, 400))
    gain = gain_of_spearman([(before, after, gold)], "0")
    single = [
        stats.spearmanr(a, gold).statistic - stats.spearmanr(before, gold).statistic for a in after
    ]
    assert gain.mean == pytest.approx(np.mean(single))
    assert gain.sd == pytest.approx(np.std(single, ddof=1))
    assert gain.low < gain.mean < gain.high
    assert gain.p < 1e-3


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"\(seed, item\)"):
        gain_of_means(np.zeros(5), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="two or more items"):
        gain_of_means(np.zeros(1), np.zeros((2, 1)))


def test_holm_against_the_definition():
    p = {"a": 0.011, "b": 0.2, "c": 0.012, "d": 0.9}
    assert holm(p) == pytest.approx({"a": 0.044, "c": 0.044, "b": 0.4, "d": 0.9})


def test_welch():
    a, b = [0.1, 0.2, 0.3], [0.5, 0.4, 0.9]
    assert welch(a, b) == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)
    assert welch(a, [0.5]) is None
    assert welch([0.1, 0.1], [0.1, 0.1]) is None


def test_the_best_row_is_tested_as_one_of_all_pairs():
    rows = {"a": [0.1, 0.2, 0.3], "b": [0.8, 0.9, 0.85], "c": [0.5, 0.45, 0.6], "d": [0.1]}
    p = {
        pair: stats.ttest_ind(rows[pair[0]], rows[pair[1]], equal_var=False).pvalue
        for pair in ("ab", "ac", "bc")
    }
    assert p["ab"] < p["bc"] < p["ac"]
    assert against_best(rows) == pytest.approx({"a": 3 * p["ab"], "c": 2 * p["bc"]})
    source, wrong = np.random.default_rng(10), 0
    for _ in range(400):  # the best of five equal rows
        scores = dict(zip("abcde", source.normal(size=(5, 5)), strict=True))
        wrong += min(against_best(scores).values()) < 0.05
    # Four pairs alone would be called 21 times: the best of five lies far from the others.
    assert wrong <= 15


@pytest.mark.parametrize("seeds", [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 50])
def test_p_belongs_to_the_interval_whatever_the_number_of_seeds(seeds, monkeypatch):
    monkeypatch.setattr("isospace.statistics.gains.RESAMPLES", 400)
    source = np.random.default_rng(seeds)
    for effect in (0.0, 0.002, 0.01, 0.02, 0.05, 1.0):
        gain = gain_of_means(*_world(source, effect, seeds, 100, 0.01, 0.1))
        assert (gain.p < 0.05) == (gain.low > 0 or gain.high < 0)
        assert 0 < gain.p <= 1
    by_seed = source.normal(0, 0.01, seeds)
    nothing = Gains(by_seed - by_seed.mean(), source.normal(0, 0.01, 400), 100).test()
    assert nothing.p == pytest.approx(1.0)
    before = np.linspace(0, 1, 50)
    same = gain_of_means(before, np.stack([before**2] * seeds))  # seeds that agree on everything
    assert 0 < same.p < 1
    assert same.low < same.mean < same.high


def test_the_average_of_sets_adds_their_variances():
    source = np.random.default_rng(5)
    gold = source.normal(size=(3, 200))
    cosines = gold[:, None] + source.normal(size=(3, 2, 200))
    names = [str(number) for number in range(3)]
    rows = {
        row: {name: cosines[i, [j]] for i, name in enumerate(names)}
        for j, row in enumerate(("start", "after"))
    }
    ids = {name: 1000 * i + np.arange(200) for i, name in enumerate(names)}
    sampled = sample_spearmans(rows, dict(zip(names, gold, strict=True)), ids)
    sets = [sampled["after"][name].over(sampled["start"][name]) for name in names]
    average = sampled["after"]["Avg"].over(sampled["start"]["Avg"])
    assert average.items == 600
    assert average.test().mean == pytest.approx(np.mean([found.test().mean for found in sets]))
    wanted = sum(found.resampled.var() for found in sets) / 9
    assert average.resampled.var() == pytest.approx(wanted, rel=0.1)
