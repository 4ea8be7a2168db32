"""Merging: weights between a base model and models that were fine-tuned from it.

Networks that were trained from the same base model lie in one basin, so that the mean of their
weights is a network too: of several results (model soups, Wortsman et al. 2022a,
https://proceedings.mlr.press/v162/wortsman22a.html), or between base model and result, which keeps
more of what the base model could do (WiSE-FT, Wortsman et al. 2022b,
https://arxiv.org/abs/2109.01903; of embedding models LM-Cocktail, Xiao et al. 2024,
https://aclanthology.org/2024.findings-acl.145).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import torch
from torch import Tensor

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import architecture
from isospace.encoders.modules import module_names
from isospace.encoders.prompts import SIDES
from isospace.errors import UserError

State: TypeAlias = Mapping[str, Tensor]
"""Name -> parameter or buffer, as `state_dict` gives them."""


def merge(start: State, results: Sequence[State], share: float) -> dict[str, Tensor]:
    """Interpolate between the base model's weights and the mean of the results.

    Args:
        start: of the network that all results were trained from.
        results: one or more.
        share: 0 is the base model and 1 the mean of the results, both bit for bit where that is of
            one result; between them (1 - share) start + share mean, in float64.

    Returns:
        Weights in the types of the base model, on the CPU. What is no floating point number, such
        as the numbers of positions, is the base model's.

    Raises:
        UserError: a share that is none, or weights of other names or shapes.
    """
    if not 0 <= share <= 1:
        raise UserError(
            f"`share` {share:g}: expected a number from 0 (the base model) to 1 (the mean of the "
            "models)"
        )
    for result in results:
        _require_same_shapes(start, result)
    return {
        name: _between(own, [result[name] for result in results], share)
        for name, own in start.items()
    }


def _between(start: Tensor, results: Sequence[Tensor], share: float) -> Tensor:
    start = start.detach().cpu().clone()
    if share == 0 or not start.is_floating_point():
        return start
    mean = reduce(operator.add, (result.detach().cpu().double() for result in results))
    mean /= len(results)
    # At the ends the sum would give the same numbers, but not the sign of a zero.
    return (mean if share == 1 else torch.lerp(start.double(), mean, share)).to(start.dtype)


def _require_same_shapes(start: State, result: State) -> None:
    lacking = [name for name in (*start, *result) if name not in start or name not in result]
    if lacking:
        raise UserError(
            f"{', '.join(lacking[:3])}: only one of the models has these weights ({len(lacking)} "
            "in all). Merge models that were trained from one base model"
        )
    for name, own in start.items():
        if own.shape != result[name].shape:
            raise UserError(
                f"{name}: the shape is {tuple(own.shape)} in the base model and "
                f"{tuple(result[name].shape)} in the model. Merge models that were trained from "
                "one base model"
            )


def require_alike(start: Encoder, other: Encoder) -> None:
    """Refuse an encoder whose weights mean something else than those of the base model.

    Raises:
        UserError: both are named, and what differs.
    """
    here, there = _about(start), _about(other)
    for name, value in here.items():
        theirs = there.get(name)  # another kind of network has other settings
        if theirs != value:
            raise UserError(
                f"{start.source} and {other.source}: {name} {value} and {theirs}. Merge models "
                "that were trained from one base model and make vectors in the same way"
            )


def _about(encoder: Encoder) -> dict[str, Any]:
    """Describe everything but the weights that decides what the vector of a text is."""
    about: dict[str, Any] = {
        "modules": " / ".join(
            dict.fromkeys(", ".join(module_names(encoder.model, s)) for s in SIDES)
        ),
        "pooling": encoder.pooling,
        "prompts": encoder.prompts.summary or "none",
        "longest input": encoder.max_length,
    }
    about |= {f"setting {name}": value for name, value in architecture(encoder).items()}
    # Last, because a hash says little.
    return about | {"tokenizer": encoder.tokens.fingerprint(None, whole=True)[:8]}
