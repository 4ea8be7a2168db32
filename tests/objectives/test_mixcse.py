"""MixCSE: which mixes are negatives, special cases, golden files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from golden_files import BASELINE, check, files, precisions, read, total
from torch import Tensor
from torch.nn.functional import normalize

from isospace.losses import diagonal_cross_entropy, mix
from isospace.objectives.mixcse import MixCSE
from isospace.operators.similarity import cosine_matrix, cosine_pairs


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

    def other_readings(all_of_them: bool) -> Any:
        def value(z1: Tensor, z2: Tensor) -> Tensor:
            mixes = mix(normalize(z2) if all_of_them else z2, weight).detach()
            if all_of_them:
                own = torch.eye(len(z1), dtype=torch.bool).roll(-1, dims=1)
                further = cosine_matrix(z1, mixes).masked_fill(own, -math.inf)
            else:
                further = cosine_pairs(z1, mixes)[:, None]
            logits = torch.cat([cosine_matrix(z1, z2), further], dim=1)
            return diagonal_cross_entropy(logits / tau).mean()

        return value

    check(file, "paper_rawmix_", precision, inputs, other_readings(False), rel=BASELINE)
    check(file, "paper_unitmix_all_", precision, inputs, other_readings(True), rel=BASELINE)
    for name in ("z1", "z2"):
        torch.testing.assert_close(mix(file[name].double(), weight), file[f"mix_of_{name}"])
