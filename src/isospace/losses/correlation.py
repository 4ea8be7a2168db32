"""Correlation between the dimensions of two views, driven to the identity (Barlow Twins, SCD)."""

from __future__ import annotations

import math
from typing import Literal

import torch

from isospace.operators import similarity


def unit_columns(x: torch.Tensor, *, eps: float = 0.0) -> torch.Tensor:
    """Standardise the columns of (batch, dim) and scale them to length 1.

    `a.T @ b` of two such arrays is their correlation. `eps` is added to the variances, as batch
    norm does.
    """
    return similarity.standardise(x, eps=eps) / math.sqrt(len(x))


def diagonal_terms(correlation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Return $\sum_j (1 - C_{jj})^2$ and $\sum_{j \ne k} C_{jk}^2$ of a matrix (dim, dim).

    >>> diagonal_terms(torch.tensor([[0.5, 2.0], [0.0, 1.0]]))
    (tensor(0.2500), tensor(4.))
    """
    dim = len(correlation)
    # Laid out in rows of dim + 1, the diagonal of a square matrix is the first column.
    off_diagonal = correlation.flatten()[:-1].view(dim - 1, dim + 1)[:, 1:]
    return (1 - correlation.diagonal()).square().sum(), off_diagonal.square().sum()


def correlation_terms(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `diagonal_terms(a.T @ b)` of (batch, dim) each.

    Where the batch is small against the dimension the matrix is never made: its squares sum to
    `||a^T b||^2 = <a a^T, b b^T>`, products of batch by batch.
    """
    if 2 * len(a) > a.shape[1]:
        return diagonal_terms(a.T @ b)
    diagonal = (a * b).sum(0)
    total = ((a @ a.T) * (b @ b.T)).sum()
    return (1 - diagonal).square().sum(), total - diagonal.square().sum()


def barlow_twins(
    a: torch.Tensor, b: torch.Tensor, *, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Return the invariance and the redundancy term of two views.

    $$\sum_j (1 - C_{jj})^2, \quad \sum_{j \ne k} C_{jk}^2, \qquad C = \tilde a^\top \tilde b / N$$

    $\tilde a$: columns standardised over the batch. Zbontar et al. 2021, "Barlow Twins", Eq. 1 and
    2; the loss is the first plus lambda (0.005) times the second.

    Args:
        a: (batch, dim)
        b: (batch, dim)
        eps: added to every variance.

    Returns:
        Two scalars.
    """
    return correlation_terms(unit_columns(a, eps=eps), unit_columns(b, eps=eps))


def self_contrast(a: torch.Tensor, b: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    r"""Return the mean cosine of two views of a sentence, which the loss pushes apart.

    $$\frac1N \sum_i \cos(a_i, b_i) / \tau$$

    Klein & Nabi 2022, "SCD".

    Args:
        a: (batch, dim), at a low dropout rate.
        b: (batch, dim), at a high dropout rate.
        temperature: tau; the paper has none.
    """
    return similarity.cosine_pairs(a, b).mean() / temperature


def decorrelation(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    eps: float = 1e-5,
    variant: Literal["released", "printed"] = "released",
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Return SCD's second term in its two parts, on and off the diagonal.

    As released: `barlow_twins`. As printed (Klein & Nabi 2022, "SCD", Eq. 3 and 4):
    $-\sum_j (1 - C_{jj})^2$ and $\sum_{j \ne k} C_{jk}^2$ of
    $C_{jk} = \sum_i a_{ij} b_{ik} / \sqrt{\sum_i a_{ij}^2 b_{ik}^2}$, which is no correlation.

    Args:
        a: (batch, dim)
        b: (batch, dim)
        eps: added to every variance (released).
        variant: released code, or the printed equations.

    Returns:
        Two scalars.
    """
    if variant == "released":
        return barlow_twins(a, b, eps=eps)
    on, off = diagonal_terms((a.T @ b) / (a.square().T @ b.square()).sqrt())
    return -on, off
