"""Geometry: golden numbers, dull loops, and values that follow from the formulas."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from isospace.evaluation import geometry
from isospace.evaluation.geometry import (
    alignment,
    effective_rank,
    mean_cosine,
    neighbour_overlap,
    uniformity,
)
from isospace.operators import nearest as nearest_module

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


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_rank_of_what_is_not_finite_is_not_a_number(value):
    broken = X.copy()
    broken[3, 2] = value
    assert np.isnan(effective_rank(broken))


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


def test_neighbours_do_not_depend_on_scale_or_rotation():
    rotation, _ = np.linalg.qr(RANDOM.normal(size=(7, 7)))
    assert neighbour_overlap(X, 3 * X @ rotation, 5) == 1.0
    assert 0.0 < neighbour_overlap(X, -Y, 5) < 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: alignment(X, Y[:3]), "one shape"),
        (lambda: uniformity(X[:1]), "at least two"),
        (lambda: effective_rank(X[0]), "sentence, dim"),
        (lambda: neighbour_overlap(X, Y, len(X)), "more than k=23"),
        (lambda: neighbour_overlap(X, Y[:3], 1), "the same"),
    ],
)
def test_wrong_shapes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
