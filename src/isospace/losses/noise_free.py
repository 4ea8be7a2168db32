"""Negatives without dropout noise (SimCSE++)."""

from __future__ import annotations

import math
from typing import Literal

import torch

from isospace.losses.contrastive import diagonal_cross_entropy
from isospace.operators import similarity


def with_clean_negatives(logits: torch.Tensor, clean: torch.Tensor) -> torch.Tensor:
    """Replace the batch's negatives in the logits; positives and further negatives stay.

    Args:
        logits: (..., batch, n) with n >= batch; positives on the diagonal, columns after the batch
            are further negatives.
        clean: (batch, batch) logits, read off the diagonal.

    Returns:
        (..., batch, n)
    """
    batch = similarity.with_diagonal(clean, logits.diagonal(dim1=-2, dim2=-1))
    return torch.cat([batch, logits[..., len(clean) :]], dim=-1)


def off_dropout(
    z1: torch.Tensor,
    z2: torch.Tensor,
    clean: torch.Tensor,
    *,
    temperature: float,
    m: float = 0.9,
    variant: Literal["released", "paper"] = "released",
) -> torch.Tensor:
    r"""Contrast noisy positives with noise-free negatives.

    $$\ell_i = -\log \frac{e^{m p_i}}{e^{m p_i} + \sum_{j \ne i} e^{n_{ij}}}, \qquad
      p_i = \cos(z_i, z'_i)/\tau, \quad n_{ij} = \cos(\hat z_i, \hat z_j)/\tau$$

    Xu et al. 2023, "SimCSE++", Eq. 3, which has m before the sum over negatives instead
    (`variant="paper"`); the formula is that of the released code.

    Args:
        z1: z, (batch, dim), under dropout.
        z2: z', (batch, dim), under dropout.
        clean: (batch, dim), without dropout.
        temperature: tau.
        m: on the positive's logit (released) or on the sum over negatives (paper).
        variant: the place of m.
    """
    positive = similarity.cosine_pairs(z1, z2) / temperature
    negatives = similarity.cosine_matrix(clean, clean) / temperature
    if variant == "released":
        positive = m * positive
    else:
        negatives = negatives + math.log(m)
    return diagonal_cross_entropy(similarity.with_diagonal(negatives, positive)).mean()
