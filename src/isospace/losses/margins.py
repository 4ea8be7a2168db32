"""Margins in angles and between cosines (ArcCSE)."""

from __future__ import annotations

import math
from typing import Literal

import torch

from isospace.operators import similarity


def angular_margin(
    a: torch.Tensor,
    b: torch.Tensor,
    margin: float = math.pi / 18,
    far: Literal["paper", "easy", "cut", "penalty"] = "paper",
) -> torch.Tensor:
    r"""Return $\cos(\theta_i + u)$ of the angles between rows; a positive's logit in ArcCon.

    Zhang et al. 2022, "A Contrastive Framework ... in Angular Space" (ArcCSE).

    Args:
        a: (batch, dim)
        b: (batch, dim)
        margin: u, in radians.
        far: what becomes of the margin at large angles: "paper" keeps it, "easy" has it below 90
            degrees alone, "cut" below pi - u, and "penalty" subtracts u sin u beyond pi - u.

    Returns:
        (batch,)
    """
    a, b = torch.nn.functional.normalize(a, dim=-1), torch.nn.functional.normalize(b, dim=-1)
    cosine = (a * b).sum(dim=-1)
    # As sqrt(1 - cos^2) the sine of a small angle has no digits and an infinite slope.
    difference, total = (torch.linalg.vector_norm(x, dim=-1) for x in (a - b, a + b))
    sine = difference * total / 2
    further: torch.Tensor = cosine * math.cos(margin) - sine * math.sin(margin)
    if far == "paper":
        return further
    if far == "easy":
        return torch.where(cosine > 0, further, cosine)
    penalty = margin * math.sin(margin) if far == "penalty" else 0.0
    return torch.where(cosine > -math.cos(margin), further, cosine - penalty)


def masking_triplet(
    x: torch.Tensor, less: torch.Tensor, more: torch.Tensor, margin: float = 0.0
) -> torch.Tensor:
    r"""Ask that a sentence is nearer to itself with a short span masked than with a longer one.

    $$\frac1N \sum_i \max(0, m + \cos(h_i, h''_i) - \cos(h_i, h'_i))$$

    Zhang et al. 2022 (ArcCSE).

    Args:
        x: h, (batch, dim).
        less: h', (batch, dim), with the short span masked.
        more: h'', (batch, dim), with the longer span masked, which holds the short one.
        margin: m.
    """
    gaps = similarity.cosine_pairs(x, more) - similarity.cosine_pairs(x, less)
    return (margin + gaps).relu().mean()
