"""SBERT's softmax loss: golden files, a case by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from golden_files import BASELINE, DTYPES, check_gradient, files, leaf, precisions, read, scalar

from isospace.objectives.heads import PairClassifier, pair_features, seeded
from isospace.objectives.sbert_softmax import relation_loss


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
        loss = relation_loss(logits, file["labels"])
        scalar(loss, file[f"{key}loss_f64"], rel)
        if key == "official_":
            limit = 1e-10 if precision == "f64" else 1e-5
            torch.testing.assert_close(logits.double(), file["logits_f64"], rtol=0, atol=limit)
        loss.backward()
        for name, x in {"u": u, "v": v, **dict(head.layer.named_parameters())}.items():
            check_gradient(file, f"{key}grad_{name}", precision, x)


def test_features_and_loss_by_hand() -> None:
    u, v = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 1.0]])
    assert pair_features(u, v, product=True).tolist() == [[1, -2, 3, 1, 2, 3, 3, -2]]
    assert relation_loss(torch.zeros(2, 3), torch.tensor([0, 2])).item() == pytest.approx(
        math.log(3)
    )
