"""Which way to search is recommended: the one with the highest MRR of those that can be used."""

from __future__ import annotations

from isospace.evaluation.scores import recommendation

BASELINES = {"base model": 0.45, "BM25": 0.4, "base model + BM25": 0.516}
ADAPTED = {"adapted": 0.55, "adapted + BM25": 0.561}


def test_the_best_comes_first_and_the_others_have_their_figures():
    said = recommendation(BASELINES | ADAPTED)
    assert said.startswith("Use hybrid search with the adapted model: 56.1.")
    assert all(figure in said for figure in ("51.6", "55.0", "40.0"))
    assert "45.0" not in said


def test_without_an_adapted_model_a_baseline_is_recommended():
    assert recommendation(BASELINES).startswith("Use hybrid search with the base model: 51.6.")
    words = recommendation({"base model": 0.3, "BM25": 0.6, "base model + BM25": 0.5})
    assert words.startswith("Use BM25 alone: 60.0.")


def test_vectors_may_be_best():
    words = recommendation(BASELINES | {"adapted": 0.6, "adapted + BM25": 0.5}, "whitened model")
    assert words.startswith("Use vectors of the whitened model alone: 60.0.")
    assert recommendation({"base model": 0.3}).startswith("Use vectors of the base model alone")
