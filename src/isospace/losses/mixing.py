"""Negatives that are mixed from the positive and another sentence (MixCSE)."""

from __future__ import annotations

from typing import Literal

import torch

from isospace.operators import similarity


def mix(z: torch.Tensor, weight: float) -> torch.Tensor:
    """Return `weight z_i + (1 - weight) z_(i+1)` of rows (batch, dim), the last with the first."""
    return weight * z + (1 - weight) * z.roll(-1, dims=0)


def mixed_cosines(
    z1: torch.Tensor,
    z2: torch.Tensor,
    weight: float = 0.2,
    *,
    variant: Literal["masked", "released", "paper"] = "masked",
    stop_gradient: bool = True,
) -> torch.Tensor:
    r"""Return the cosines of anchors with mixed negatives, further columns of InfoNCE.

    $$\cos(z_i, m'_j), \quad \cos(m_i, z'_j), \qquad m_j = \lambda z_j + (1 - \lambda) z_{j+1}$$

    A mix that is mostly the anchor's own positive is left out, at minus infinity. Zhang et al.
    2022, "Unsupervised Sentence Representation via Contrastive Learning with Mixing Negatives"
    (MixCSE).

    Args:
        z1: z, (batch, dim).
        z2: z', (batch, dim).
        weight: lambda, share of the positive in a mix.
        variant: "masked" leaves the own mixes out; "released" has them at 0; "paper" gives an
            anchor one mix, of its own positive and of vectors of length 1.
        stop_gradient: treat the mixes as constants.

    Returns:
        (batch, 2 batch), or (batch, 1) of the paper's variant.
    """
    constant = [z.detach() if stop_gradient else z for z in (z1, z2)]
    if variant == "paper":
        own = mix(torch.nn.functional.normalize(constant[1], dim=1), weight)
        return similarity.cosine_pairs(z1, own)[:, None]
    left_out = 0.0 if variant == "released" else -torch.inf
    first, second = (mix(z, weight) for z in constant)
    own = torch.eye(len(z1), dtype=torch.bool, device=z1.device)
    parts = [
        similarity.cosine_matrix(z1, second).masked_fill(own.roll(-1, dims=1), left_out),
        similarity.cosine_matrix(first, z2).masked_fill(own.roll(1, dims=1), left_out),
    ]
    return torch.cat(parts, dim=1)
