"""Several positives of one anchor (WhitenedCSE)."""

from __future__ import annotations

import math
from typing import Literal

import torch

from isospace.operators import similarity


def multi_positive(
    views: torch.Tensor,
    temperature: float,
    *,
    form: Literal["l1", "l2", "l2-printed", "l2-plus"] = "l1",
    weight: float = 1.0,
) -> torch.Tensor:
    r"""Contrast each of several positives of an anchor, and combine the losses.

    $$q_{ip} = \frac{e^{\cos(z_{0i}, z_{pi})/\tau}}{\sum_j e^{\cos(z_{0i}, z_{pj})/\tau}}, \qquad
      L_1 = -\lambda \sum_p \log q_{ip}, \qquad L_2 = \log \sum_p \lambda / q_{ip}$$

    Zhuo et al. 2023, "WhitenedCSE", Eq. 7 ("l1") and Eq. 8 as its text describes it ("l2"); as
    printed, $-\log \sum_p \lambda e^{-s_p} / D_p$ ("l2-printed") pushes positives away; "l2-plus"
    flips that sign.

    Args:
        views: z, (view, batch, dim); view 0 is the anchor, the others its positives.
        temperature: tau.
        form: how the positives' losses are combined.
        weight: lambda.
    """
    anchor, *positives = views
    logits = torch.stack([similarity.cosine_matrix(anchor, p) / temperature for p in positives])
    own, log_sum = logits.diagonal(dim1=1, dim2=2), logits.logsumexp(dim=2)
    if form == "l1":
        losses = weight * (log_sum - own).sum(0)
    elif form == "l2":
        losses = math.log(weight) + (log_sum - own).logsumexp(0)
    else:
        sign = -1 if form == "l2-printed" else 1
        losses = -math.log(weight) - (sign * own - log_sum).logsumexp(0)
    return losses.mean()
