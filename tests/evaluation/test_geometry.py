"""Geometry: golden numbers, dull loops, values that follow from the formulas; the task."""

import itertools
import json

import numpy as np
import pytest
import torch
from golden_files import files
from sts_files import angles

from isospace.evaluation import geometry
from isospace.evaluation.geometry import (
    alignment,
    describe,
    effective_rank,
    evaluate_geometry,
    mean_cosine,
    neighbour_overlap,
    uniformity,
)
from isospace.evaluation.pairs import ScoredPairs
from isospace.operators import nearest as nearest_module

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(2, 23, 7)) + 0.3


def cos(x, y):
    return x @ y / np.sqrt((x @ x) * (y @ y))


@files("align_uniform")
def test_alignment_and_uniformity_equal_the_authors(path):
    golden = np.load(path)
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
        return set(sorted((j for j in range(n) if j != i), key=lambda j: -cos(x[i], x[j]))[:10])

    common = [len(nearest(X, i) & nearest(Y, i)) / 10 for i in range(n)]
    assert neighbour_overlap(X, Y) == pytest.approx(np.mean(common))


def test_effective_rank_by_hand():
    # Singular values 3 and 1: entropy of (3/4, 1/4).
    x = np.array([[3.0, 0], [-3, 0], [0, 1], [0, -1]]) / np.sqrt(2)
    expected = np.exp(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    assert effective_rank(x) == pytest.approx(expected)
    assert effective_rank(x + 100.0) == pytest.approx(expected)  # the mean is not a direction
    assert effective_rank(np.outer(np.arange(5.0), np.ones(4))) == pytest.approx(1.0)
    assert effective_rank(np.eye(6)) == pytest.approx(5.0)


def encode(texts):
    return 3 * angles(texts)


def stsb(gold):
    return ScoredPairs("dev", ("0", "0", "0"), ("60", "30", "90"), np.array(gold), "s")


def squared_distance(degrees):
    return 2 - 2 * np.cos(np.radians(degrees))


def test_pairs_from_four_on_are_positive_and_each_sentence_counts_once():
    texts = ["0", "0", "0", "60", "30", "90"]
    result = evaluate_geometry(encode, texts, "dev", stsb([5.0, 4, 1]))
    wanted = np.mean(squared_distance([60, 30]))
    assert result.measures["alignment"] == pytest.approx(wanted, abs=1e-6)
    between = [b - a for a, b in itertools.combinations((0, 30, 60, 90), 2)]
    potentials = np.exp(-2 * squared_distance(between))
    assert result.measures["uniformity"] == pytest.approx(np.log(potentials.mean()), abs=1e-5)
    assert "2 pairs (gold >= 4)" in result.protocol
    without = evaluate_geometry(encode, texts, "dev", stsb([1.0, 0.8, 0.2]))
    assert "alignment" not in without.measures
    assert "alignment" not in without.protocol


DRAWS = np.random.default_rng(0)
DRAWN = DRAWS.normal(size=(31, 6)) @ DRAWS.normal(size=(6, 6)) + 0.5


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_has_no_good_numbers():
    broken = DRAWS.normal(size=(70, 16))
    broken[3, 2] = np.nan
    measures = describe(broken)
    assert (measures.pop("sentences"), measures.pop("dim")) == (70, 16)
    assert np.isnan(list(measures.values())).all()


def test_geometry_of_distinct_sentences_in_an_order_without_meaning(monkeypatch):
    texts = [f"{i}" for i in range(30)] * 2

    def encode(asked):
        assert len(set(asked)) == len(asked)
        return DRAWN[[int(text) for text in asked]]

    scores = evaluate_geometry(encode, texts, "my texts")
    assert scores.protocol == "30 distinct sentences of my texts, shuffled, no dropout"
    assert scores.measures == pytest.approx(describe(DRAWN[:30]))
    monkeypatch.setattr("isospace.evaluation.geometry.SAMPLE", 20)
    fewer = evaluate_geometry(encode, texts, "my texts").to_json()
    assert fewer["protocol"] == "20 of 30 distinct sentences of my texts, shuffled, no dropout"
    assert json.loads(json.dumps(fewer)) == fewer
    assert fewer["mean_cosine"] != pytest.approx(describe(DRAWN[:20])["mean_cosine"])  # a sample
