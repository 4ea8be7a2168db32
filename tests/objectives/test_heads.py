"""Training-only heads: shapes, statistics, random streams, against loops and by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from isospace.objectives.heads import (
    GaussianCopies,
    GaussianRows,
    TanhMLP,
    seeded,
)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_tanh_mlp_starts_like_a_new_pooler() -> None:
    head = TanhMLP(256, seeded(0))
    assert head.dense.weight.mean().abs() < 1e-3
    assert head.dense.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert (head.dense.bias == 0).all()
    x = random(2, 3, 256)
    torch.testing.assert_close(head(x), torch.tanh(x @ head.dense.weight.T))


def test_gaussian_copies_have_the_stated_variance() -> None:
    views = random(2, 400, 20)
    out = GaussianCopies(0.1, seeded(0))(views)
    assert torch.equal(out[:2], views)
    noise = out[2:] - views
    assert noise.var().item() == pytest.approx(0.1, rel=0.05)
    assert noise.mean().abs() < 0.01


def test_gaussian_rows_travel_as_views_and_are_new_each_time() -> None:
    head, views = GaussianRows(704, seeded(0)), random(2, 64, 4)
    first, second = head(views), head(views)
    assert torch.equal(first[:2], views)
    rows, others = (out[2:].flatten(0, 1) for out in (first, second))
    assert (rows[704:] == 0).all()
    assert not (rows[:704] == others[:704]).any()
    assert rows[:704].std().item() == pytest.approx(1.0, rel=0.05)
