"""Merging: weights between a base model and models that were fine-tuned from it.

Models fine-tuned from one base model lie in one loss basin, so the mean of their weights works too.
Model soups average several fine-tuned models (Wortsman et al. 2022a,
https://proceedings.mlr.press/v162/wortsman22a.html). WiSE-FT interpolates between base model and
fine-tuned model, which forgets less (Wortsman et al. 2022b, https://arxiv.org/abs/2109.01903).
LM-Cocktail does the same for embedding models (Xiao et al. 2024,
https://aclanthology.org/2024.findings-acl.145).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import torch
from torch import Tensor

from isospace.errors import UserError

State: TypeAlias = Mapping[str, Tensor]
"""Name -> parameter or buffer, as `state_dict` returns them."""


def merge(base: State, results: Sequence[State], share: float) -> dict[str, Tensor]:
    """Interpolate between the base model's weights and the mean of the results.

    The merged weights are (1 - share) base + share mean(results), in float64.

    Args:
        base: weights of the base model.
        results: weights of one or more models that were fine-tuned from it.
        share: 0 gives the base model bit for bit; 1 gives the mean of the results, and a single
            result bit for bit.

    Returns:
        Weights in the types of the base model, on the CPU. Integers, such as position ids, are the
        base model's.

    Raises:
        UserError: the share is outside [0, 1].
    """
    if not 0 <= share <= 1:
        raise UserError(
            f"`share` {share:g}: expected a number from 0 (the base model) to 1 (the mean of the "
            "models)"
        )
    return {
        name: _between(own, [result[name] for result in results], share)
        for name, own in base.items()
    }


def _between(base: Tensor, results: Sequence[Tensor], share: float) -> Tensor:
    base = base.detach().cpu().clone()
    if share == 0 or not base.is_floating_point():
        return base
    mean = reduce(operator.add, (result.detach().cpu().double() for result in results))
    mean /= len(results)
    # At share 0 and 1, interpolation would give the same numbers, but not the sign of a zero.
    return (mean if share == 1 else torch.lerp(base.double(), mean, share)).to(base.dtype)
