"""Geometry: golden numbers, dull loops, and values that follow from the formulas."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from isospace.evaluation import geometry
from isospace.evaluation.geometry import (
    PROTOCOLS,
    alignment,
    effective_rank,
    mean_cosine,
    neighbour_overlap,
    possible_protocols,
    stsb_geometry,
    uniformity,
)
from isospace.evaluation.pairs import ScoredPairs
from isospace.evaluation.sts import STSTask
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


def test_uniformity_of_a_dead_encoder_is_that_of_equal_vectors():
    assert uniformity(np.zeros((4, 3))) == 0.0
    half = np.concatenate([np.zeros((2, 2)), np.eye(2)])
    potentials = [1.0, *[np.exp(-2)] * 4, np.exp(-4)]  # distances 0, 1 and the square root of 2
    assert uniformity(half) == pytest.approx(np.log(np.mean(potentials)))


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


def test_a_collapsed_encoder_shows_in_every_measure():
    row = RANDOM.normal(size=16).astype(np.float32)
    collapsed = np.tile(row, (40, 1)) * np.float32(1 + 1e-8)
    assert effective_rank(collapsed) == 0.0
    assert uniformity(collapsed) == pytest.approx(0.0, abs=1e-6)
    assert mean_cosine(collapsed) == pytest.approx(1.0)


def test_neighbours_do_not_depend_on_scale_or_rotation():
    rotation, _ = np.linalg.qr(RANDOM.normal(size=(7, 7)))
    assert neighbour_overlap(X, 3 * X @ rotation, 5) == 1.0
    assert 0.0 < neighbour_overlap(X, -Y, 5) < 1.0


def test_tensors_of_any_float_type_with_a_gradient_are_taken():
    exact = torch.tensor([[1.0, 0.0], [0.5, 0.5]], dtype=torch.bfloat16, requires_grad=True)
    assert mean_cosine(exact) == pytest.approx(np.sqrt(0.5))


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


def encode(sentences):
    angles = np.radians([float(sentence) for sentence in sentences])
    return 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def stsb(*splits):
    """STS-B with three pairs in dev, at 60, 30 and 90 degrees, and one in each of the other two."""
    subsets = {
        "train": ScoredPairs("train", ("0",), ("20",), np.array([4.5]), "s"),
        "dev": ScoredPairs("dev", ("0", "0", "0"), ("60", "30", "90"), np.array([5.0, 4, 1]), "s"),
        "test": ScoredPairs("test", ("0",), ("45",), np.array([4.0]), "s"),
    }
    return {"STSBenchmark": STSTask("STSBenchmark", {split: subsets[split] for split in splits})}


def squared_distance(degrees):
    return 2 - 2 * np.cos(np.radians(degrees))


@pytest.mark.parametrize(
    ("protocol", "splits", "positives", "gaps", "sentences"),
    [
        ("stsb-dev >= 4", "dev", "gold >= 4", (60, 30), (0, 30, 60, 90)),
        ("stsb-dev > 4", "dev", "gold > 4", (60,), (0, 30, 60, 90)),
        ("stsb-test >= 4", "test", "gold >= 4", (45,), (0, 45)),
        (
            "stsb-all >= 4", "train + dev + test", "gold >= 4",
            (20, 60, 30, 45), (0, 20, 30, 45, 60, 90),
        ),
        (
            "stsb-all > 4", "train + dev + test", "gold > 4", (20, 60), (0, 20, 30, 45, 60, 90),
        ),
        ("stsb-dev >= 4, repeated", "dev", "gold >= 4", (60, 30), (0, 60, 0, 30, 0, 90)),
        ("dropout-views", "dev", "two dropout views", (10, 10, 10, 10), (0, 30, 60, 90)),
    ],
)  # fmt: skip
def test_protocols_choose_pairs_and_sentences(protocol, splits, positives, gaps, sentences):
    turns = iter([4, 14])  # the second view is 10 degrees from the first

    def encode_noisy(texts):
        turn = next(turns)
        return encode([float(text) + turn for text in texts])

    result = stsb_geometry(encode, stsb("train", "dev", "test"), protocol, encode_noisy)
    assert result.alignment == pytest.approx(np.mean(squared_distance(gaps)), abs=1e-6)
    between = [b - a for a, b in itertools.combinations(sentences, 2)]
    potentials = np.exp(-2 * squared_distance(between))
    assert result.uniformity == pytest.approx(np.log(potentials.mean()), abs=1e-5)
    which = "sentences as the pairs have them" if "repeated" in protocol else "distinct sentences"
    assert result.protocol == (
        f"STS-B {splits}, L2-normalised; alignment over {len(gaps)} pairs ({positives}), "
        f"uniformity over {len(sentences)} {which}, no dropout"
    )
    document = result.to_json()
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize(
    ("protocol", "splits", "message"),
    [
        ("stsb-test > 4", ("test",), "no pair of STS-B test has gold > 4"),
        ("stsb-all > 4", ("dev", "test"), "needs STS-B train; there is dev, test"),
        ("dropout-views", ("dev",), "needs encode_noisy"),
    ],
)
def test_protocols_that_cannot_be_followed_are_refused(protocol, splits, message):
    with pytest.raises(ValueError, match=message):
        stsb_geometry(encode, stsb(*splits), protocol)


def test_only_possible_protocols_are_offered():
    every = [name for name in PROTOCOLS if name != "stsb-test > 4"]  # no pair of test has that
    assert possible_protocols(stsb("train", "dev", "test"), (0.1,)) == every
    hub = possible_protocols(stsb("dev", "test"), (0.0, 0.1))
    assert hub == [name for name in every if not name.startswith("stsb-all")]
    assert "dropout-views" not in possible_protocols(stsb("dev", "test"), (0.0,))
    low = stsb("dev", "test")
    for pairs in low["STSBenchmark"].subsets.values():
        pairs.gold[:] /= 5
    assert possible_protocols(low, (0.1,)) == ["dropout-views"]


def test_a_protocols_name_says_what_it_does():
    for name, protocol in PROTOCOLS.items():
        data, _, threshold = name.removeprefix("stsb-").removesuffix(", repeated").partition(" ")
        if threshold:
            assert protocol.positives == f"gold {threshold}"
            assert protocol.splits == (("train", "dev", "test") if data == "all" else (data,))
