"""Measures of ranked lists: ir-measures' where nothing ties, means over orders where it does."""

from itertools import permutations

import ir_measures
import numpy as np
import pytest

from isospace.evaluation.retrieval import MEASURES, measure_ranking
from isospace.operators.nearest import product_blocks, unit_rows

THEIRS = {
    "nDCG@10": ir_measures.nDCG @ 10,
    "MRR@10": ir_measures.RR @ 10,
    "R@1": ir_measures.R @ 1,
    "R@10": ir_measures.R @ 10,
    "R@100": ir_measures.R @ 100,
}


def theirs(scores, judgements):
    """The same by ir-measures, (measure, query)."""
    qrels = [
        ir_measures.Qrel(str(query), str(place), int(grade))
        for query, grades in enumerate(judgements)
        for place, grade in grades.items()
    ]
    run = [
        ir_measures.ScoredDoc(str(query), str(place), float(score))
        for query, row in enumerate(scores)
        for place, score in enumerate(row)
    ]
    values = {name: np.zeros(len(judgements)) for name in MEASURES}
    for metric in ir_measures.iter_calc(list(THEIRS.values()), qrels, run):
        name = next(name for name, measure in THEIRS.items() if measure == metric.measure)
        values[name][int(metric.query_id)] = metric.value
    return values


@pytest.mark.parametrize("documents", [3, 400])
def test_without_ties_the_numbers_are_those_of_ir_measures(documents):
    random = np.random.default_rng(documents)
    scores = np.stack([random.permutation(documents) for _ in range(40)]) / documents
    judgements = []
    for _ in scores:
        size = random.integers(1, min(documents, 150))
        judged = random.choice(documents + 9, size, replace=False)  # nine are missing
        grades = random.choice([-1, 0, 0, 1, 2, 3], len(judged))
        judgements.append(dict(zip(judged.tolist(), grades.tolist(), strict=True)))
    judgements[0] = {0: 0}  # judged, but nothing is relevant
    ours, reference = measure_ranking([(0, scores)], judgements), theirs(scores, judgements)
    for name in MEASURES:
        assert np.allclose(ours[name], reference[name], rtol=0, atol=1e-9), name
    assert all(ours[name][0] == 0 for name in MEASURES)


def test_ties_are_the_mean_over_all_orders():
    scores = np.array([0.9, 0.5, 0.5, 0.5, 0.5, 0.1, 0.1])
    grades = {1: 2.0, 2: 1.0, 5: 3.0}
    found = measure_ranking([(0, scores[None])], [grades])
    every = []
    for middle in permutations(range(1, 5)):
        for end in permutations((5, 6)):
            order = np.empty(7)
            order[[0, *middle, *end]] = np.arange(7, 0, -1)
            every.append(measure_ranking([(0, order[None])], [grades]))
    for name in MEASURES:
        assert found[name][0] == pytest.approx(np.mean([of[name][0] for of in every])), name


def test_a_collapsed_encoder_gets_what_chance_gets():
    """Wherever the right document stands in the file; also where rounding differs."""
    random = np.random.default_rng(0)
    same = unit_rows(np.ones((300, 8)) + random.normal(0, 1e-8, (300, 8)))
    found = measure_ranking(product_blocks(same[:2], same), [{0: 1.0}, {299: 2.0}])
    assert found["R@100"] == pytest.approx([1 / 3, 1 / 3])
    assert found["MRR@10"] == pytest.approx(sum(1 / rank for rank in range(1, 11)) / 300, abs=1e-9)
    assert (found["nDCG@10"] < 0.02).all()
