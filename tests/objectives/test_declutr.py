"""DeCLUTR's loss: averaged positives, golden files."""

from __future__ import annotations

from pathlib import Path

import torch
from golden_files import BASELINE, check, files, precisions, read, scalar
from torch import Tensor
from torch.nn.functional import normalize

from isospace.objectives.declutr import span_contrast


@precisions
@files("baselines/declutr_loss")
def test_averaged_positives(path: Path, precision: str) -> None:
    file = read(path)
    tau, shape = (
        float(file["temperature"]),
        (int(file["num_anchors"]), int(file["num_positives"]), -1),
    )
    inputs = {name: file[name] for name in ("anchors", "positives")}

    def loss(anchors: Tensor, positives: Tensor) -> Tensor:
        return span_contrast(anchors, positives.view(shape), tau)

    check(file, "official_", precision, inputs, loss, rel=BASELINE)
    anchors, positives = (x.double() for x in inputs.values())
    mean = positives.view(shape).mean(dim=1)
    torch.testing.assert_close(mean, file["mean_positive_f64"], rtol=0, atol=1e-10)
    units = normalize(positives, dim=1)
    scalar(loss(anchors, units), file["variant_normalise_before_averaging_loss_f64"], 1e-10)
