"""Pairs that share a sentence err together: against a loop, and against simulated truth."""

from __future__ import annotations

import numpy as np
import pytest

from isospace.statistics.gains import gain, standard_error
from isospace.statistics.influence import average, spearman_scores


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
