"""Made-up views for the tests of objectives, and InfoNCE as a loop."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from isospace.objectives import Objective
from isospace.views import Views


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def layer_of(dim: int) -> torch.nn.Module:
    """In the place of an encoder: auxiliaries copy it, and ask for its width."""
    layer = torch.nn.Linear(dim, dim)
    layer.dim = dim  # type: ignore[assignment]
    return layer


def loss(objective: Objective, *projected: Tensor) -> float:
    views = torch.stack(projected)
    return sum(t.item() for t in objective(Views(views[: len(objective.views)], views)).values())


def looped_info_nce(a: Tensor, b: Tensor, tau: float) -> float:
    total = 0.0
    for i in range(len(a)):
        row = [math.exp(cosine_similarity(a[i], y, dim=0).item() / tau) for y in b]
        total -= math.log(row[i] / sum(row))
    return total / len(a)
