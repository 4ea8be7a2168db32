"""WhitenedCSE: its losses, its groups, golden files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from golden_files import SCALAR, files, leaf, precisions, read, scalar, total, vector

from isospace.objectives import (
    WhitenedCSE,
)


@precisions
@files("whitenedcse_head")
@pytest.mark.parametrize("arrangement", ["viewwise", "interleaved_as_released"])
@pytest.mark.parametrize("stop_gradient", [True, False])
def test_whitening_head(
    path: Path,
    arrangement: str,
    stop_gradient: bool,
    precision: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = read(path)
    permutations = torch.stack([file[f"perm{i}"] for i in (1, 2, 3)])
    drawn = iter(permutations)
    monkeypatch.setattr(torch, "randperm", lambda *_, **__: next(drawn))
    objective = WhitenedCSE(
        num_views=file["cls"].shape[1],
        groups=int(file["groups"]),
        temperature=float(file["temperature"]),
        variant="paper" if arrangement == "viewwise" else "released",
        stop_gradient=stop_gradient,
        eps=0.0,
    )
    head = objective.build_head(file["cls"].shape[2], seed=0)
    dense = head[1].dense
    dense.load_state_dict({"weight": file["dense_weight"], "bias": file["dense_bias"]})
    cls = leaf(file["cls"], precision)
    encoded = cls.transpose(0, 1)
    loss = total(objective, *head.to(cls.dtype)(encoded))
    scalar(loss, file[f"{arrangement}_loss_{precision}"], SCALAR[precision])
    loss.backward()
    detached, full = f"{arrangement}_grad_cls_detachedW", f"{arrangement}_grad_cls_fullW"
    recorded = [f"{full}_f64_as_f32"]
    if stop_gradient:
        recorded = [f"{detached}_f64_as_f32", f"{detached}_f32"]
    for key in recorded:
        vector(cls.grad, file[key], 1e-5 if stop_gradient else 1e-4)
    vector(dense.weight.grad, file[f"{arrangement}_grad_dense_weight_f32"], 1e-5)
    vector(dense.bias.grad, file[f"{arrangement}_grad_dense_bias_f32"], 1e-5)
