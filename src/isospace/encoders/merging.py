"""Merging: weights between a base model and a model that was fine-tuned from it.

Models fine-tuned from one base model lie in one loss basin, so a mean of weights works too. WiSE-FT
interpolates between base model and fine-tuned model, which forgets less (Wortsman et al. 2022,
https://arxiv.org/abs/2109.01903). LM-Cocktail does the same for embedding models (Xiao et al. 2024,
https://aclanthology.org/2024.findings-acl.145).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor

State: TypeAlias = Mapping[str, Tensor]
"""Name -> parameter or buffer, as `state_dict` returns them."""


def merge(base: State, trained: State, share: float) -> dict[str, Tensor]:
    """Return (1 - share) base + share trained, computed in float64.

    Args:
        base: weights of the base model.
        trained: weights of a model that was fine-tuned from it.
        share: 0 gives the base model bit for bit, 1 the trained model.

    Returns:
        Weights in the types of the base model, on the CPU. Integers, such as position ids, are the
        base model's.
    """
    return {name: _between(own, trained[name], share) for name, own in base.items()}


def _between(base: Tensor, trained: Tensor, share: float) -> Tensor:
    base = base.detach().cpu().clone()
    if share == 0 or not base.is_floating_point():
        return base
    other = trained.detach().cpu().double()
    # At share 0 and 1, interpolation would give the same numbers, but not the sign of a zero.
    return (other if share == 1 else torch.lerp(base.double(), other, share)).to(base.dtype)
