"""Geometry: golden numbers, dull loops, values that follow from the formulas; both tasks."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import skew

from isospace.evaluation import geometry
from isospace.evaluation.evaluate_config import EvaluateConfig
from isospace.evaluation.geometry import (
    alignment,
    correlation_rank,
    describe,
    effective_rank,
    evaluate_isotropy,
    hubness,
    isoscore,
    k_occurrence,
    mean_correlation,
    mean_cosine,
    neighbour_overlap,
    stsb_geometry,
    stsb_geometry_task,
    uniformity,
)
from isospace.evaluation.pairs import ScoredPairs
from isospace.evaluation.senteval import STSSet
from isospace.evaluation.task import Request
from isospace.operators import nearest, nearest as nearest_module

ROOT = Path(__file__).parents[2]
GOLDEN = Path(os.environ.get("ISOSPACE_GOLDEN", ROOT / "../shared/golden")) / "align_uniform.npz"

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(2, 23, 7)) + 0.3


def cos(x, y):
    return x @ y / np.sqrt((x @ x) * (y @ y))


@pytest.mark.skipif(not GOLDEN.is_file(), reason=f"no golden file at {GOLDEN}")
def test_alignment_and_uniformity_equal_the_authors():
    golden = np.load(GOLDEN)
    x, y = golden["x"], golden["y"]
    assert alignment(x, y) == pytest.approx(float(golden["align_loss_f64"]), rel=1e-10)
    for name, rows in (("x", x), ("y", y), ("xy_concat", np.concatenate([x, y]))):
        expected = float(golden[f"uniform_{name}_loss_f64"])
        assert uniformity(torch.from_numpy(rows)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("chunk", [1, 60, 1 << 20])
def test_formulas_equal_a_loop(monkeypatch, chunk):
    monkeypatch.setattr(geometry, "_CHUNK_ENTRIES", chunk)
    monkeypatch.setattr(nearest_module, "BLOCK", chunk)
    n = len(X)
    assert alignment(X, Y) == pytest.approx(np.mean([2 - 2 * cos(X[i], Y[i]) for i in range(n)]))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    potentials = [np.exp(-2 * (2 - 2 * cos(X[i], X[j]))) for i, j in pairs]
    assert uniformity(X) == pytest.approx(np.log(np.mean(potentials)))
    assert mean_cosine(X) == pytest.approx(np.mean([cos(X[i], X[j]) for i, j in pairs]))

    def nearest(x, i):
        return set(sorted((j for j in range(n) if j != i), key=lambda j: -cos(x[i], x[j]))[:4])

    common = [len(nearest(X, i) & nearest(Y, i)) / 4 for i in range(n)]
    assert neighbour_overlap(X, Y, 4) == pytest.approx(np.mean(common))


def test_effective_rank_by_hand():
    # Singular values 3 and 1: entropy of (3/4, 1/4).
    x = np.array([[3.0, 0], [-3, 0], [0, 1], [0, -1]]) / np.sqrt(2)
    expected = np.exp(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    assert effective_rank(x) == pytest.approx(expected)
    assert effective_rank(x + 100.0) == pytest.approx(expected)  # the mean is not a direction
    assert effective_rank(np.outer(np.arange(5.0), np.ones(4))) == pytest.approx(1.0)
    assert effective_rank(np.eye(6)) == pytest.approx(5.0)


def encode(sentences):
    angles = np.radians([float(sentence) for sentence in sentences])
    return 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def stsb(gold):
    dev = ScoredPairs("dev", ("0", "0", "0"), ("60", "30", "90"), np.array(gold), "s")
    return {"STSBenchmark": STSSet("STSBenchmark", {"dev": dev})}


def squared_distance(degrees):
    return 2 - 2 * np.cos(np.radians(degrees))


def test_pairs_from_four_on_are_positive_and_each_sentence_counts_once():
    result = stsb_geometry(encode, stsb([5.0, 4, 1]))
    assert result.alignment == pytest.approx(np.mean(squared_distance([60, 30])), abs=1e-6)
    between = [b - a for a, b in itertools.combinations((0, 30, 60, 90), 2)]
    potentials = np.exp(-2 * squared_distance(between))
    assert result.uniformity == pytest.approx(np.log(potentials.mean()), abs=1e-5)
    assert "2 pairs (gold >= 4), uniformity over 4 distinct" in result.protocol


@pytest.mark.parametrize(("gold", "measured"), [([5.0, 4, 1], True), ([1.0, 0.8, 0.2], False)])
def test_without_positive_pairs_nothing_is_measured(gold, measured):
    found = stsb_geometry_task(Request(EvaluateConfig(), None, stsb(gold), []))
    assert (found is not None) == measured


DRAWS = np.random.default_rng(0)
DRAWN = DRAWS.normal(size=(31, 6)) @ DRAWS.normal(size=(6, 6)) + 0.5


def cross(dim, used):
    """Points on both sides of the first `used` axes: their covariance is a multiple of I^(used)."""
    axes = np.eye(dim)[:used]
    return np.concatenate([axes, -axes])


def isoscore_by_steps(x):
    """Algorithm 1 of Rudman et al., step after step."""
    n = x.shape[1]
    _, vectors = np.linalg.eigh(np.cov(x.T))
    variances = np.diag(np.cov((x @ vectors).T))
    normalised = np.sqrt(n) * variances / np.sqrt(sum(v * v for v in variances))
    defect = np.sqrt(sum((v - 1) ** 2 for v in normalised)) / np.sqrt(2 * (n - np.sqrt(n)))
    share = (n - defect**2 * (n - np.sqrt(n))) ** 2 / n**2
    return (n * share - 1) / (n - 1)


@pytest.mark.parametrize(("dim", "used"), [(2, 2), (9, 9), (40, 40), (3, 1), (40, 1), (3, 2)])
def test_isoscore_of_the_papers_cases(dim, used):
    """Isotropic is 1, a line 0, a plane in three dimensions 1/2."""
    assert isoscore(cross(dim, used)) == pytest.approx((used - 1) / (dim - 1), abs=1e-12)


@pytest.mark.parametrize("x", [DRAWN, DRAWN * np.arange(1, 7), DRAWN[:4]])
def test_isoscore_equals_the_algorithms_steps(x):
    assert isoscore(x) == pytest.approx(isoscore_by_steps(x), rel=1e-9)
    rotation, _ = np.linalg.qr(DRAWS.normal(size=(6, 6)))
    assert isoscore(7 * x @ rotation - 100) == pytest.approx(isoscore(x), rel=1e-9)


def occurrences_by_loop(x, k):
    units = [row / np.sqrt(row @ row) for row in x]
    counts = [0] * len(x)
    for i in range(len(x)):
        others = sorted((j for j in range(len(x)) if j != i), key=lambda j: -units[i] @ units[j])
        for j in others[:k]:
            counts[j] += 1
    return counts


@pytest.mark.parametrize("chunk", [1, 70, 1 << 20])
@pytest.mark.parametrize("k", [1, 5, 30])
def test_k_occurrence_equals_a_loop(monkeypatch, chunk, k):
    monkeypatch.setattr(nearest, "BLOCK", chunk)
    assert k_occurrence(DRAWN, k) == pytest.approx(occurrences_by_loop(DRAWN, k))


def test_a_star_has_one_hub():
    """Sentences on separate axes have one neighbour in common: the one in the middle."""
    star = np.concatenate([np.ones((1, 8)), np.eye(8)])
    assert k_occurrence(star, 1) == pytest.approx([8] + [1 / 8] * 8)
    assert hubness(star, 1)[0] == pytest.approx(skew([8] + [1 / 8] * 8))
    star[0, 0] = 1.5  # the middle's own nearest is now the first axis, and that alone
    assert k_occurrence(star, 1) == pytest.approx([8, 1] + [0] * 7)
    assert hubness(star, 1)[1] == pytest.approx(7 / 9)


def test_hubs_do_not_depend_on_the_order_of_equal_sentences():
    repeated = np.concatenate([DRAWN, DRAWN[:10]])
    order = DRAWS.permutation(len(repeated))
    assert k_occurrence(repeated[order]) == pytest.approx(k_occurrence(repeated)[order])
    assert k_occurrence(repeated).sum() == pytest.approx(10 * len(repeated))


def test_mean_correlation_equals_a_loop():
    columns = DRAWN.T
    pairs = [(c, d) for c in range(6) for d in range(6) if c != d]
    expected = np.mean([abs(np.corrcoef(columns[c], columns[d])[0, 1]) for c, d in pairs])
    assert mean_correlation(DRAWN) == pytest.approx(expected)
    constant = np.full((len(DRAWN), 1), 0.1)
    assert mean_correlation(np.hstack([DRAWN, constant])) == pytest.approx(expected)
    assert mean_correlation(DRAWN[:, :1] * [1.0, -2.0, 3.0] + 4) == pytest.approx(1.0)
    assert mean_correlation(cross(5, 5)) == pytest.approx(0.0)


def test_correlation_rank_sees_redundant_dimensions_through_the_rounding_of_float32():
    factors = DRAWS.normal(size=(200, 5)) @ DRAWS.normal(size=(5, 30))
    embeddings = factors.astype(np.float32) + np.float32(1.0)
    assert np.linalg.matrix_rank(embeddings.astype(np.float64) - embeddings.mean(0)) == 30
    assert correlation_rank(embeddings, (4, 200)) == {4: 3, 200: 5}
    dead = np.hstack([embeddings, np.full((200, 3), np.float32(0.1))])
    assert correlation_rank(dead, (200,)) == {200: 5}


def test_describe_gives_every_measure():
    x = DRAWS.normal(size=(130, 20)).astype(np.float32)
    measures = describe(torch.from_numpy(x).requires_grad_())
    assert json.loads(json.dumps(measures)) == measures
    assert measures == {
        "sentences": 130,
        "dim": 20,
        "effective_rank": geometry.effective_rank(x),
        "mean_cosine": geometry.mean_cosine(x),
        "isoscore": isoscore(x),
        "uniformity": geometry.uniformity(x),
        "hubness": hubness(x, 10)[0],
        "antihubs": hubness(x, 10)[1],
        "mean_correlation": mean_correlation(x),
        "correlation_rank@64": 20,
        "correlation_rank@128": 20,
    }


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_has_no_good_numbers():
    broken = DRAWS.normal(size=(70, 16))
    broken[3, 2] = np.nan
    measures = describe(broken)
    assert (measures.pop("sentences"), measures.pop("dim")) == (70, 16)
    assert "mean_correlation" in measures
    assert np.isnan(list(measures.values())).all()
    with pytest.raises(ValueError, match="finite"):
        correlation_rank(broken, (64,))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: isoscore(DRAWN[:1]), "at least two"),
        (lambda: isoscore(DRAWN[:, :1]), "two dimensions"),
        (lambda: k_occurrence(DRAWN, 31), "more than k=31"),
        (lambda: describe(DRAWN[:10]), "more than k=10"),
        (lambda: correlation_rank(DRAWN, (2, 32)), "from 2 to 31, got 32"),
        (lambda: correlation_rank(DRAWN, (1,)), "from 2 to 31, got 1"),
        (lambda: mean_correlation(DRAWN[0]), "sentence, dim"),
    ],
)
def test_wrong_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_isotropy_of_distinct_sentences_in_an_order_without_meaning(monkeypatch):
    texts = [f"{i}" for i in range(30)] * 2

    def encode(asked):
        assert len(set(asked)) == len(asked)
        return DRAWN[[int(text) for text in asked]]

    scores = evaluate_isotropy(encode, texts, "my texts")
    expected = describe(DRAWN[:30])
    assert scores.protocol == "30 distinct sentences of my texts, shuffled, no dropout"
    assert {name: scores.measures[name] for name in expected} == pytest.approx(expected)
    monkeypatch.setattr("isospace.evaluation.geometry.SAMPLE", 20)
    fewer = evaluate_isotropy(encode, texts, "my texts").to_json()
    assert fewer["protocol"] == "20 of 30 distinct sentences of my texts, shuffled, no dropout"
    assert json.loads(json.dumps(fewer)) == fewer
    assert fewer["sentences"] == 20
    assert fewer["mean_cosine"] != pytest.approx(describe(DRAWN[:20])["mean_cosine"])  # a sample
