"""SimCSE++ and its study of noise: what each part changes, what it leaves; golden files."""

from __future__ import annotations

import pytest
import torch
from objective_views import loss, random
from torch.nn.functional import cross_entropy, normalize

from isospace.objectives import (
    NoiseStudy,
)


def test_noise_study_changes_the_named_part_only() -> None:
    z1, z2, c1, c2 = (random(7, 5, seed=seed) for seed in range(4))
    plain = normalize(z1) @ normalize(z2).T / 0.05
    changed = normalize(c1) @ normalize(c2).T / 0.05
    for part, diagonal, rest in (("positives", changed, plain), ("negatives", plain, changed)):
        logits = rest.clone()
        logits.diagonal().copy_(diagonal.diagonal())
        expected = cross_entropy(logits, torch.arange(7)).item()
        objective = NoiseStudy(part=part, passes=1)  # type: ignore[arg-type]
        assert loss(objective, z1, z2, c1, c2) == pytest.approx(expected)


def test_means_are_taken_over_the_passes_of_one_view() -> None:
    z1, z2, *passes = (random(7, 5, seed=seed) for seed in range(8))
    first, second = sum(passes[:3]) / 3, sum(passes[3:]) / 3
    three = loss(NoiseStudy(passes=3), z1, z2, *passes)
    assert three == pytest.approx(loss(NoiseStudy(passes=1), z1, z2, first, second))
