"""Influences against the jackknife, scipy and brute force."""

import numpy as np
import pytest
import scipy.stats
from ranks import rank_targets

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


def test_the_error_of_a_mean_is_the_textbook_one():
    values = np.random.default_rng(0).normal(size=(1, 80))
    wanted = scipy.stats.sem(values[0])
    assert standard_error(mean_scores(values, np.arange(80))) == pytest.approx(wanted)


def test_by_groups_it_is_the_jackknife_that_leaves_groups_out():
    random = np.random.default_rng(1)
    groups = np.repeat(np.arange(12), 5)
    values = random.normal(size=12)[groups] + random.normal(size=60)
    sums = group_sums(groups, values[None])[0]
    left = (values.sum() - sums) / 55  # of equal groups the mean without one
    jackknife = np.sqrt(11 / 12 * np.square(left - left.mean()).sum())
    error = standard_error(mean_scores(values[None], groups))
    assert error == pytest.approx(jackknife)
    assert error > 1.3 * standard_error(mean_scores(values[None], np.arange(60)))


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
    gold = np.arange(6.0)
    scores = spearman_scores(np.ones((1, 6)), gold, np.arange(6))
    assert scores.by_seed[0] == 0
    assert not scores.influence.any()


def test_products_of_items_that_share_a_sentence_by_brute_force():
    random = np.random.default_rng(4)
    sentences = random.integers(0, 15, (40, 2))
    x, y = random.normal(size=(2, 40))
    wanted = sum(
        x[i] * y[j] for i in range(40) for j in range(40) if set(sentences[i]) & set(sentences[j])
    )
    assert sum_of_products(sentences, x, y) == pytest.approx(wanted)
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
    assert mean_scores(np.zeros((1, 30)), groups).effective_groups == pytest.approx(900 / 732)


def test_an_average_of_sets_that_share_all_sentences_is_no_surer_than_one():
    random = np.random.default_rng(1)
    gold, sentences = random.normal(size=100), np.arange(200).reshape(100, 2)
    cosines = gold + random.normal(size=(1, 100))
    one = spearman_scores(cosines, gold, sentences)
    other = spearman_scores(cosines, gold, sentences + 200)
    assert standard_error(average([one, one])) == pytest.approx(standard_error(one))
    assert standard_error(average([one, other])) == pytest.approx(
        standard_error(one) / np.sqrt(2), rel=0.01
    )
    few = spearman_scores(cosines[:, :40], gold[:40], sentences[:40] + 400)
    both = average([one, few])
    assert both.by_seed[0] == pytest.approx((one.by_seed[0] + few.by_seed[0]) / 2)
    apart = (standard_error(one) ** 2 + standard_error(few) ** 2) / 4
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
