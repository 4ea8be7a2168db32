"""MixCSE: which mixes are negatives, special cases, golden files."""

from __future__ import annotations

from pathlib import Path

import torch
from golden_files import BASELINE, check, files, precisions, read, total

from isospace.losses import mix
from isospace.objectives.mixcse import MixCSE


@precisions
@files("baselines/mixcse")
def test_mixed_negatives(path: Path, precision: str) -> None:
    file = read(path)
    weight, tau = float(file["lambda_mix"]), float(file["temperature"])
    inputs = {name: file[name] for name in ("z1", "z2")}
    for variant, key in (
        ("released", "official_"),
        ("masked", "code_masked_neg_inf_"),
        ("paper", "paper_unitmix_"),
    ):
        objective = MixCSE(temperature=tau, mix_weight=weight, variant=variant)  # type: ignore[arg-type]
        check(file, key, precision, inputs, lambda *z, o=objective: total(o, *z), rel=BASELINE)
    for name in ("z1", "z2"):
        torch.testing.assert_close(mix(file[name].double(), weight), file[f"mix_of_{name}"])
