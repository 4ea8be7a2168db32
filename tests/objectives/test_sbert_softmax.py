"""SBERT's softmax loss: golden files, a case by hand, a loop."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from golden_files import BASELINE, DTYPES, check_gradient, files, leaf, precisions, read, scalar
from torch import nn

from isospace.objectives.heads import PairClassifier, seeded
from isospace.objectives.sbert_softmax import SBERTSoftmax
from isospace.views import Views


@precisions
@files("baselines/sbert_softmax")
def test_classifier(path: Path, precision: str) -> None:
    file = read(path)
    rel = 1e-10 if precision == "f64" else BASELINE
    for key, weight, options in (
        ("official_", "weight", {}),
        ("official_with_product_", "weight_with_product", {"product": True}),
        ("paper_no_bias_", "weight", {"bias": False}),
    ):
        u, v = leaf(file["u"], precision), leaf(file["v"], precision)
        head = PairClassifier(u.shape[1], int(file["num_labels"]), seeded(0), **options)
        bias = {} if "bias" in options else {"layer.bias": file["bias"]}
        head.load_state_dict({"layer.weight": file[weight], **bias})
        (logits,) = head.to(DTYPES[precision])(torch.stack([u, v]))
        loss = torch.nn.functional.cross_entropy(logits, file["labels"])
        scalar(loss, file[f"{key}loss_f64"], rel)
        if key == "official_":
            limit = 1e-10 if precision == "f64" else 1e-5
            torch.testing.assert_close(logits.double(), file["logits_f64"], rtol=0, atol=limit)
        loss.backward()
        for name, x in {"u": u, "v": v, **dict(head.layer.named_parameters())}.items():
            check_gradient(file, f"{key}grad_{name}", precision, x)


def pairs(count: int, dim: int = 4) -> torch.Tensor:
    return torch.randn(2, count, dim, generator=seeded(1), dtype=torch.float64)


def relation(
    objective: SBERTSoftmax, head: nn.Module, encoded: torch.Tensor, labels: list[int]
) -> float:
    views = Views(encoded, head(encoded), labels=torch.tensor(labels))
    return objective(views)["relation"].item()


@pytest.mark.parametrize("options", [{}, {"with_product": True}, {"bias": False}])
def test_the_row_is_a_loop_over_pairs_and_labels(options: dict[str, bool]) -> None:
    objective, labels = SBERTSoftmax(**options), [2, 0, 1, 2, 2]
    encoded = pairs(len(labels))
    head = objective.build_head(4, seed=7, classes=3).double()
    weights = head.layer.weight.tolist()
    biases = head.layer.bias.tolist() if objective.bias else [0.0] * 3
    total = 0.0
    for u, v, label in zip(*encoded.tolist(), labels, strict=True):
        features = [*u, *v, *(abs(a - b) for a, b in zip(u, v, strict=True))]
        if objective.with_product:
            features += [a * b for a, b in zip(u, v, strict=True)]
        scores = [
            math.exp(sum(w * x for w, x in zip(row, features, strict=True)) + bias)
            for row, bias in zip(weights, biases, strict=True)
        ]
        total -= math.log(scores[label] / sum(scores)) / len(labels)
    found = relation(objective, head, encoded, labels)
    assert found == pytest.approx(total, rel=1e-12)
