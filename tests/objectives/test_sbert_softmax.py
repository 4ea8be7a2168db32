"""SBERT's softmax loss against vectors of its authors' code."""

from __future__ import annotations

from pathlib import Path

import torch
from golden_files import BASELINE, DTYPES, check_gradient, files, leaf, precisions, read, scalar

from isospace.objectives.sbert_softmax import SBERTSoftmax
from isospace.views import Views


@precisions
@files("baselines/sbert_softmax")
def test_classifier(path: Path, precision: str) -> None:
    file = read(path)
    rel = 1e-10 if precision == "f64" else BASELINE
    for key, weight, options in (
        ("official_", "weight", {}),
        ("official_with_product_", "weight_with_product", {"with_product": True}),
        ("paper_no_bias_", "weight", {"bias": False}),
    ):
        u, v = leaf(file["u"], precision), leaf(file["v"], precision)
        objective = SBERTSoftmax(**options)
        head = objective.build_head(u.shape[1], 0, int(file["num_labels"]))
        bias = {"layer.bias": file["bias"]} if objective.bias else {}
        head.load_state_dict({"layer.weight": file[weight], **bias})
        encoded = torch.stack([u, v])
        logits = head.to(DTYPES[precision])(encoded)
        loss = objective(Views(encoded, logits, labels=file["labels"]))["relation"]
        scalar(loss, file[f"{key}loss_f64"], rel)
        if key == "official_":
            limit = 1e-10 if precision == "f64" else 1e-5
            torch.testing.assert_close(logits[0].double(), file["logits_f64"], rtol=0, atol=limit)
        loss.backward()
        for name, x in {"u": u, "v": v, **dict(head.layer.named_parameters())}.items():
            check_gradient(file, f"{key}grad_{name}", precision, x)
