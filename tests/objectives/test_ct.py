"""Contrastive tension: layouts of pairs, golden files, a case by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from golden_files import BASELINE, check, files, precisions, read, scalar, vector
from objective_views import random

from isospace.objectives.ct import in_batch_tension, tension, tension_pairs
from isospace.operators.similarity import cosine_matrix


@files("baselines/ct_pairs")
def test_layouts_of_pairs(path: Path) -> None:
    file = read(path)
    k, positives = int(file["num_negatives"]), file["positive_draws"]
    draws = file["negative_draws"].view(len(positives), 2, k)
    pairs = {
        "official": tension_pairs(positives, draws[:, 0], draws[:, 1]),
        "paper": tension_pairs(positives, draws[:, 0]),
    }
    for name, (first, second, labels) in pairs.items():
        assert torch.equal(first, file[f"{name}_first"])
        assert torch.equal(second, file[f"{name}_second"])
        assert torch.equal(labels.float(), file["official_labels"])
    ratio, shape = int(file["st_pos_neg_ratio"]), file["st_first"].shape
    blocks = file["st_order"][: shape.numel() // ratio * (2 * ratio - 1)].view(-1, 2 * ratio - 1)
    st = tension_pairs(blocks[:, 0], blocks[:, 1::2], blocks[:, 2::2])
    for found, name in zip(st, ("first", "second", "labels"), strict=True):
        assert torch.equal(found.view(shape), file[f"st_{name}"])


@precisions
@files("baselines/ct_loss")
def test_pairs_of_inner_products(path: Path, precision: str) -> None:
    file = read(path)
    inputs, labels = {name: file[name] for name in ("a", "b")}, file["labels"]
    check(file, "official_", precision, inputs, lambda a, b: tension(a, b, labels), rel=BASELINE)

    def summed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return tension(a, b, labels, "sum")

    check(file, "official_sum_", precision, inputs, summed, rel=BASELINE)
    a, b = (x.double() for x in inputs.values())
    for name, rows in (("positive", labels == 1), ("negative", labels == 0)):
        part = tension(a[rows], b[rows], labels[rows], "sum")
        scalar(part, file[f"official_{name}_sum_f64"], 1e-10)


@precisions
@files("baselines/ct_inbatch")
def test_in_batch(path: Path, precision: str) -> None:
    file = read(path)
    # The gradient of the scale comes from a difference, and has fewer digits than the others.
    inputs = {name: file[name] for name in ("a", "b")}
    scale = file["log_scale"]

    def loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return in_batch_tension(a, b, scale.to(a))

    check(file, "official_", precision, inputs, loss, rel=BASELINE)
    a, b = (x.double() for x in inputs.values())
    leaf = scale.to(torch.float64 if precision == "f64" else torch.float32).requires_grad_()
    in_batch_tension(a.to(leaf), b.to(leaf), leaf).backward()
    assert leaf.grad is not None
    limit = 1e-8 if precision == "f64" else 2e-5
    vector(leaf.grad, file["official_grad_log_scale_f64"], limit)
    scores = scale.double().exp() * cosine_matrix(a, b)
    torch.testing.assert_close(scores, file["scores_f64"], rtol=0, atol=1e-10)


def test_tension_by_hand_and_at_large_products() -> None:
    """log(1 + e^-1) for a pair of product 1 labelled 1, log(1 + e^2) for one of 2 labelled 0."""
    a, b = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[1.0, 5.0], [1.0, 0.0]])
    expected = (math.log1p(math.exp(-1)) + math.log1p(math.exp(2))) / 2
    assert tension(a, b, torch.tensor([1, 0])).item() == pytest.approx(expected)
    assert tension(100 * a, b, torch.tensor([1, 0])).item() == pytest.approx(100)


def test_in_batch_is_the_same_in_both_directions() -> None:
    a, b, scale = random(6, 4), random(6, 4, seed=1), torch.tensor(3.0)
    torch.testing.assert_close(in_batch_tension(a, b, scale), in_batch_tension(b, a, scale))
