"""Made-up views for the tests of objectives."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from isospace.objectives import OBJECTIVES, Objective
from isospace.views import Views


def choices(name: str) -> list[dict[str, Any]]:
    """Every choice that is not the default, one at a time: an option's other words, its opposite."""
    kind = OBJECTIVES[name]
    types = get_type_hints(kind)
    found: list[dict[str, Any]] = []
    for field in fields(kind):
        values = (True, False) if types[field.name] is bool else get_args(types[field.name])
        if values and (types[field.name] is bool or get_origin(types[field.name]) is Literal):
            found += [{field.name: v} for v in values if v != field.default]
    return found


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def loss(objective: Objective, *projected: Tensor) -> float:
    views = torch.stack(projected)
    return sum(t.item() for t in objective(Views(views[: len(objective.views)], views)).values())
