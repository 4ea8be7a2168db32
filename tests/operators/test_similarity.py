"""Similarities where they are hard to compute."""

from __future__ import annotations

import torch

from isospace.operators.similarity import info_nce


def test_info_nce_stays_finite_at_tiny_temperatures() -> None:
    z = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    assert info_nce(z, -z, 1e-4).isfinite()
