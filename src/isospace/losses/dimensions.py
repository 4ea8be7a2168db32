"""Contrast between the dimensions of two views (SimCSE++)."""

from __future__ import annotations

from typing import Literal

import torch

from isospace.losses.contrastive import diagonal_cross_entropy
from isospace.operators import similarity


def dimension_contrast(
    z1: torch.Tensor,
    z2: torch.Tensor,
    *,
    temperature: float = 5.0,
    variant: Literal["released", "paper"] = "released",
) -> torch.Tensor:
    r"""Contrast every column with the columns of the other view (DCL).

    $$\frac1D \sum_c -\log \frac{e^{S_{cc}/\tau}}{\sum_d e^{S_{cd}/\tau}}, \qquad
      S = \tilde z^\top \tilde z' / N$$

    $\tilde z$: columns standardised over the batch. Xu et al. 2023, "SimCSE++", Eq. 5, which has
    neither 1/N nor 1/D and divides variances by N - 1 (`variant="paper"`); the formula is that of
    the released code, which adds 1e-5 to variances.

    Args:
        z1: z, (batch, dim).
        z2: z', (batch, dim).
        temperature: tau.
        variant: the scale, of the released code or of Eq. 5.
    """
    if variant == "released":
        a, b = (similarity.standardise(z, eps=1e-5) for z in (z1, z2))
        return diagonal_cross_entropy(a.T @ b / len(z1) / temperature).mean()
    a, b = (similarity.standardise(z, ddof=1) for z in (z1, z2))
    return diagonal_cross_entropy(a.T @ b / temperature).sum()
