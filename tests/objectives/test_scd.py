"""SCD: its two terms, both readings of the paper, golden files."""

from __future__ import annotations

from pathlib import Path

import torch
from golden_files import files, leaf, read, vector
from torch import nn

from isospace.objectives.heads import Projector, seeded


@files("scd_projector")
def test_scd_projector(path: Path) -> None:
    file = read(path)
    weights = [file[f"layer{i}_linear_weight"] for i in (0, 3, 6)]
    widths = [len(weight) for weight in weights]
    head = Projector(weights[0].shape[1], seeded(0), widths=widths, first_bias=True)
    for i, weight in zip((0, 3, 6), weights, strict=True):
        head.layers[i].weight.data.copy_(weight)
    head.layers[0].bias.data.copy_(file["layer0_linear_bias"])
    head.double()
    h = leaf(torch.stack([file["hA"], file["hB"]]), "f64")
    p = head(h)
    expected = torch.stack([file["pA_f64"], file["pB_f64"]])
    torch.testing.assert_close(p, expected, rtol=0, atol=1e-9)
    (p[0] * file["upstream"]).sum().backward()
    vector(h.grad[0], file["grad_hA_f64"], 1e-8)
    for i in (1, 4):
        norm = head.layers[i]
        assert isinstance(norm, nn.BatchNorm1d)
        for name in ("mean", "var"):
            recorded = file[f"layer{i}_bn_running_{name}_after_both"]
            running = getattr(norm, f"running_{name}")
            torch.testing.assert_close(running, recorded, rtol=0, atol=1e-10)
