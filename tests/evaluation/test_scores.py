"""BM25 beside what is shipped, in words and in tables."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from report_runs import results_of

from isospace.evaluation.benchmark import GAIN, Benchmark, recommendation, table_rows
from isospace.statistics.gains import gain, mean_scores
from isospace.statistics.selection import SelectedAmong, gain_of_selected

RNG = np.random.default_rng(0)
NOISE = RNG.uniform(-0.1, 0.1, (3, 200))


def scores(mean, row=0):
    """Of 200 pairs around a mean, all a bit other with each row."""
    values = mean + NOISE[row]
    return mean_scores(values[None], np.arange(200), np.zeros((2, 1, 200)))


BASE, RESULT, BM25 = scores(0.5), scores(0.6, 1), scores(0.55, 2)


def test_hybrid_search_that_the_same_pairs_selected_is_corrected():
    """Of 15 without effect "adapted + BM25" was said to find more in a quarter of the cases."""
    noise = RNG.normal(0, 0.1, (15, 200))
    noise -= noise.mean(1, keepdims=True) - np.linspace(0, 0.017, 15)[:, None]
    candidates = [BASE, *(mean_scores(BASE.values + row, np.arange(200)) for row in noise)]
    benchmark = Mock(pair_scores=lambda scores: scores)
    before, after = (
        Mock(retrieval=scores, with_bm25=Mock(bm25=BM25, hybrid=scores))
        for scores in (BASE, candidates[15])
    )
    plain = gain(candidates[15], BASE)
    among = SelectedAmong(candidates, 15)
    for given, expected in ((None, plain), (among, gain_of_selected(among))):
        found = Benchmark.bm25_gains(benchmark, before, after, given)
        assert found["BM25"] == gain(BM25, BASE)
        assert found["adapted + BM25"] == expected
    assert expected.low < 0 < plain.low
    assert list(Benchmark.bm25_gains(benchmark, before, before)) == ["BM25", "base model + BM25"]


def test_a_row_has_its_gain_over_the_base_model():
    results = results_of(0.4386, 0.0597)
    states = {"base model": results.base, "adapted": results.adapted}
    rows = table_rows("", states, {"BM25": replace(gain(RESULT, BASE), mean=-0.0386)})
    shown = {row[""]: (row["MRR"], row[GAIN][:6]) for row in rows}
    assert shown["base model"] == ("43.86", "")
    assert shown["BM25"] == ("40.00", "-3.86 ")


@pytest.mark.parametrize(
    ("adapted", "best", "figure"),
    [
        ({"adapted": 0.55, "adapted + BM25": 0.561}, "hybrid search with the adapted", "56.1"),
        ({"adapted": 0.6, "adapted + BM25": 0.5}, "vectors of the adapted", "60.0"),
        ({}, "hybrid search with the base model", "51.6"),
        ({"BM25": 0.6}, "BM25 alone", "60.0"),
    ],
)
def test_the_best_way_to_search_is_recommended(adapted, best, figure):
    mrr = {"base model": 0.45, "BM25": 0.4, "base model + BM25": 0.516} | adapted
    said = recommendation(mrr)
    assert said.startswith(f"Use {best}")
    assert said.split(". ")[0].endswith(figure)
    assert ("45.0" in said) == ("adapted" not in adapted)
