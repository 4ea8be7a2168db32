"""Made-up views for the tests of objectives."""

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from isospace.objectives import OBJECTIVES
from isospace.views import Views


def choices(name):
    """Every choice that is not the default, one at a time: an option's other words, its opposite."""
    kind = OBJECTIVES[name]
    types = get_type_hints(kind)
    found: list[dict[str, Any]] = []
    for field in fields(kind):
        values = (True, False) if types[field.name] is bool else get_args(types[field.name])
        if values and (types[field.name] is bool or get_origin(types[field.name]) is Literal):
            found += [{field.name: v} for v in values if v != field.default]
    return found


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosine(a, b):
    return float(a @ b / (a.norm() * b.norm()))


def loss(objective, *projected):
    views = torch.stack(projected)
    return sum(t.item() for t in objective(Views(views[: len(objective.views)], views)).values())
