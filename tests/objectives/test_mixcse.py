"""MixCSE: which mixes are negatives, special cases, golden files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from golden_files import BASELINE, check, files, precisions, read, total
from objective_views import loss, random
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

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


def test_a_row_by_loops() -> None:
    z1, z2 = random(5, 4), random(5, 4, seed=1)
    losses = []
    for i in range(5):
        row = [cosine_similarity(z1[i], z2[j], dim=0) for j in range(5)]
        for j in range(5):
            after = (j + 1) % 5
            if after != i:
                row.append(cosine_similarity(z1[i], 0.3 * z2[j] + 0.7 * z2[after], dim=0))
            if j != (i + 1) % 5:
                mixed = 0.3 * z1[i] + 0.7 * z1[(i + 1) % 5]
                row.append(cosine_similarity(mixed, z2[j], dim=0))
        logits = torch.stack(row) / 0.1
        losses.append((logits.logsumexp(0) - logits[i]).item())
    found = loss(MixCSE(mix_weight=0.3, temperature=0.1), z1, z2)
    assert found == pytest.approx(sum(losses) / 5)


def test_the_own_mix_is_the_paper_s_only_one() -> None:
    """Orthogonal sentences, equal views, tau 1: e against e + (n - 1) + e^cos(z_i, m_i)."""
    z = torch.eye(4)
    cosine = 0.2 / math.hypot(0.2, 0.8)
    expected = -math.log(math.e / (math.e + 3 + math.exp(cosine)))
    found = loss(MixCSE(variant="paper", temperature=1.0), z, z)
    assert found == pytest.approx(expected)
