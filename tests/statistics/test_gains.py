"""Gains and influences against Student's t, the jackknife, scipy and brute force."""

import numpy as np
import pytest
from ranks import item_scores, rank_targets
from scipy import stats

from isospace.statistics.gains import (
    average,
    gain,
    group_sums,
    mean_scores,
    spearman,
    spearman_scores,
    standard_error,
    sum_of_products,
)


def over_nothing(differences):
    """The gain of differences (seed, item) or (item,) over zeros."""
    differences = np.asarray(differences, float)
    return gain(item_scores(differences), item_scores(np.zeros(differences.shape[-1])))


def ends(found):
    return found.low, found.mean, found.high


def test_of_normal_differences_it_is_close_to_students_t():
    differences = np.random.default_rng(0).normal(0.03, 0.1, 200)
    found = over_nothing(differences)
    plain = stats.ttest_1samp(differences, 0)
    low, high = plain.confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.0003)
    assert found.p == pytest.approx(plain.pvalue, rel=0.1)
    assert found.mean == pytest.approx(differences.mean())


def test_heavy_tails_leave_fewer_degrees_of_freedom():
    random = np.random.default_rng(1)
    heavy = random.normal(0, 0.1, 40) * (random.random(40) < 0.2)
    _, plain = stats.ttest_1samp(heavy, 0).confidence_interval()
    found = over_nothing(heavy)
    assert found.high - found.mean > 1.05 * (plain - heavy.mean())
    many = np.tile(heavy, 50)
    _, plain = stats.ttest_1samp(many, 0).confidence_interval()
    assert over_nothing(many).high == pytest.approx(plain, rel=0.01)


@pytest.mark.parametrize("pairs", [3, 30, 40, 600])
def test_where_all_gain_the_same_three_in_n_may_lose_all(pairs):
    found = over_nothing(np.full(pairs, 1 - 2 / (pairs + 1)))
    margin = 3 / pairs * (1 + found.mean)
    assert (found.low, found.high) == pytest.approx((found.mean - margin, 1.0))
    assert 0 < found.p == pytest.approx((1 + found.mean) ** -pairs)


def test_where_nothing_changed_the_interval_is_not_of_nothing():
    """Of n items that did not change up to 3 / n of all others may."""
    found = over_nothing(np.zeros(100))
    assert ends(found) == pytest.approx((-0.03, 0.0, 0.03))
    assert (found.changed, found.changed_groups) == (0, 0)
    assert ends(over_nothing(np.zeros(2))) == (-1.0, 0.0, 1.0)


def test_a_few_that_changed_tell_no_more_than_none():
    little = np.zeros(100)
    little[:5] = [0.01, 0.02, 0.02, 0.03, 0.02]
    found = over_nothing(little)
    assert (found.low, found.high) == pytest.approx((0.001 - 0.03, 0.001 + 0.03))
    assert found.p > 0.9


def test_where_only_seeds_differ_it_is_the_t_test_over_seeds():
    by_seed = np.array([0.01, 0.03, 0.02])
    before = np.linspace(0, 1, 50)
    found = gain(item_scores(before + by_seed[:, None]), item_scores(before))
    assert found.p == pytest.approx(stats.ttest_1samp(by_seed, 0.0).pvalue, rel=1e-6)
    assert found.sd == pytest.approx(0.01)


def test_seeds_and_items_are_both_in_the_interval():
    random = np.random.default_rng(3)
    items = random.normal(0.01, 0.15, 300)
    seeds = random.normal(0, 0.004, (5, 1))
    both = over_nothing(items + seeds)
    assert both.p > 2 * stats.ttest_1samp((items + seeds).mean(1), 0).pvalue
    of_items = standard_error(item_scores(items))
    variance = of_items**2 + np.var(seeds, ddof=1) / 5
    assert (both.high - both.mean) / 1.97 == pytest.approx(variance**0.5, rel=0.05)


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_p_belongs_to_the_interval_whatever_the_number_of_seeds(seeds):
    random = np.random.default_rng(seeds)
    for effect in (0.0, 0.002, 0.01, 0.02, 0.05, 1.0):
        found = over_nothing(effect + random.normal(0, 0.1, (seeds, 100)))
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
        assert 0 < found.p <= 1


def test_by_groups_it_is_the_jackknife_that_leaves_groups_out():
    random = np.random.default_rng(1)
    groups = np.repeat(np.arange(12), 5)
    values = random.normal(size=12)[groups] + random.normal(size=60)
    sums = group_sums(groups, values[None])[0]
    left = (values.sum() - sums) / 55  # of equal groups the mean without one
    jackknife = np.sqrt(11 / 12 * np.square(left - left.mean()).sum())
    error = standard_error(item_scores(values, groups))
    assert error == pytest.approx(jackknife)
    assert error > 1.3 * standard_error(item_scores(values))


@pytest.mark.parametrize("ties", [False, True])
def test_the_influence_on_spearman_is_that_of_leaving_a_pair_out(ties):
    random = np.random.default_rng(2)
    x = random.normal(size=120)
    y = x + random.normal(size=120)
    if ties:
        x, y = np.round(x, 1), np.round(y)
    whole = spearman(x, y)
    left = np.array([spearman(np.delete(x, i), np.delete(y, i)) for i in range(120)])
    jackknife = 119 * (whole - left) / 120
    jackknife -= jackknife.mean()
    influence = spearman_scores(x[None], y, np.arange(120)).influence[0]
    np.testing.assert_allclose(influence, jackknife, atol=0.06 * np.abs(jackknife).max())


def test_a_constant_column_has_no_influence():
    scores = spearman_scores(np.ones((1, 6)), np.arange(6.0), np.arange(6))
    assert scores.by_seed[0] == 0
    assert not scores.influence.any()


def test_products_of_items_that_share_a_sentence_by_brute_force():
    random = np.random.default_rng(4)
    sentences = random.integers(0, 15, (40, 2))
    x, y = random.normal(size=(2, 40))
    shared = (sentences[:, None, :, None] == sentences[None, :, None, :]).any((2, 3))
    assert sum_of_products(sentences, x, y) == pytest.approx(x @ shared @ y)
    assert sum_of_products(np.arange(40), x, y) == pytest.approx(x @ y)


def test_candidates_are_in_the_error():
    """Docstrings' queries share candidates: with hubs the items alone say too little."""
    random = np.random.default_rng(7)
    n, gains, with_them, alone = 60, [], [], []
    for _ in range(300):
        targets = random.normal(size=(n, 12))
        queries = targets + 1.3 * random.normal(size=(n, 12)) + 0.5
        hubs = targets + 1.5 * (random.random(n) < 0.05)[:, None]  # near all queries
        first, second = (rank_targets(queries, t, np.arange(n)) for t in (targets, hubs))
        gains.append(second.mrr - first.mrr)
        for errors, shared in ((with_them, True), (alone, False)):
            start, result = (
                mean_scores(
                    ranks.reciprocal_ranks[None],
                    np.arange(n),
                    ranks.displacement[:, None] if shared else None,
                )
                for ranks in (first, second)
            )
            errors.append(standard_error(result, start) ** 2)
    true = np.std(gains)
    assert np.sqrt(np.mean(alone)) < 0.9 * true
    assert np.sqrt(np.mean(with_them)) == pytest.approx(true, rel=0.2)


def test_kish_counts_groups_by_their_size():
    groups = np.repeat([0, 1, 2, 3], [27, 1, 1, 1])
    assert item_scores(np.zeros(30), groups).effective_groups == pytest.approx(900 / 732)


def test_an_average_of_sets_that_share_all_sentences_is_no_surer_than_one():
    random = np.random.default_rng(1)
    gold, sentences = random.normal(size=100), np.arange(200).reshape(100, 2)
    cosines = gold + random.normal(size=(1, 100))
    one = spearman_scores(cosines, gold, sentences)
    other = spearman_scores(cosines, gold, sentences + 200)
    error = standard_error(one)
    assert standard_error(average([one, one])) == pytest.approx(error)
    assert standard_error(average([one, other])) == pytest.approx(error / np.sqrt(2), rel=0.01)
    few = spearman_scores(cosines[:, :40], gold[:40], sentences[:40] + 400)
    both = average([one, few])
    assert both.by_seed[0] == pytest.approx((one.by_seed[0] + few.by_seed[0]) / 2)
    apart = (error**2 + standard_error(few) ** 2) / 4
    assert standard_error(both) ** 2 == pytest.approx(apart, rel=0.03)


def test_encoders_that_err_by_sentences_differ_by_chance_as_often_as_said():
    """Every sentence stands in four pairs, and chains of them join nearly all pairs."""
    random = np.random.default_rng(2)
    found, cases = {"shared": 0, "apart": 0}, 150
    for _ in range(cases):
        sentences = random.permuted(np.repeat(np.arange(100), 4)).reshape(200, 2)
        gold = random.normal(size=100)[sentences].sum(1) + 0.3 * random.normal(size=200)
        encoders = [
            gold + 2 * random.normal(size=100)[sentences].sum(1) + 0.3 * random.normal(size=200)
            for _ in range(2)
        ]
        for name, known in {"shared": sentences, "apart": np.arange(200)}.items():
            before, after = (spearman_scores(c[None], gold, known) for c in encoders)
            found[name] += gain(after, before).p < 0.05
    assert found["shared"] / cases < 0.08
    assert found["apart"] / cases > 0.15
