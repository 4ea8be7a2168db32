"""Inverse square roots of covariance matrices: ZCA and PCA.

`zca` and `pca` map positive semi-definite matrices `C` (..., dim, dim) to `W` of the same shape
such that `W.T @ C @ W = I`. A centred row vector `x` is whitened as `x @ W`. Directions whose
variance is rounding noise become zero (the pseudo-inverse). Rank-deficient, constant or zero input
therefore gives neither errors nor NaN, and the gradient is exact as long as the rank is constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def in_float64(x: Tensor) -> Tensor:
    """Convert to float64, on the CPU if the device is MPS, which has no float64."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def eigensystem(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (..., dim), largest first, and eigenvectors as columns (..., dim, dim).

    They are computed in float64; in single precision they would lose another digit. A matrix with
    NaN or infinity is replaced by the identity, since its rows are NaN anyway.
    """
    matrix = in_float64(covariance)
    finite = matrix.sum((-2, -1), keepdim=True).isfinite()
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    eigenvalues, eigenvectors = torch.linalg.eigh(torch.where(finite, matrix, identity))
    return eigenvalues.flip(-1).to(covariance), eigenvectors.flip(-1).to(covariance)


def _inverse_root(eigenvalues: Tensor) -> Tensor:
    """Return `s ** -0.5`, or 0 if `s` is within the rounding error of the largest eigenvalue."""
    largest = eigenvalues.amax(-1, keepdim=True)
    rounding = eigenvalues.shape[-1] * torch.finfo(eigenvalues.dtype).eps * largest
    present = eigenvalues > rounding.clamp(min=_floor(eigenvalues))
    return torch.where(present, torch.where(present, eigenvalues, 1.0).rsqrt(), 0.0)


def _floor(x: Tensor) -> float:
    """Return the variance below which gradients would overflow; smaller ones count as zero."""
    return float(torch.finfo(x.dtype).tiny ** 0.5)


def _divided_difference(r_i: Tensor, r_j: Tensor) -> Tensor:
    """Return `(f(s_i) - f(s_j)) / (s_i - s_j)` of `f(s) = s ** -0.5`, given `r = f(s)` of both.

    Computed as `-(r_i r_j)^2 / (r_i + r_j)`, which has no difference and so is exact for equal
    eigenvalues. For a null direction (r_j = 0) the result is `f(s_i) / s_i = r_i^3`.
    """
    total = r_i + r_j
    one_is_null = (r_i == 0) | (r_j == 0)
    inside = -((r_i * r_j).square() / torch.where(total > 0, total, 1.0))
    return torch.where(one_is_null, total**3, inside)


def zca_by_rows(products: Tensor, *, eps: float) -> tuple[Tensor, Tensor, float]:
    """Return the parts of a covariance's symmetric root, from fewer rows than columns.

    The covariance X^T X / N of rows X (n, dim) has the eigenvalues of X X^T / N, and zeros. With
    f(s) = (s + eps)^-1/2 and W = f(X^T X / N), the eigenvectors of X X^T / N suffice for

        X W = left X,    and for any rows G:    G W = f(0) G + G X^T inner X.

    The results have no gradient.

    Args:
        products: X X^T / N, (..., n, n).
        eps: added to every variance.

    Returns:
        `left` = f(X X^T / N) and N `inner`, both (..., n, n), and f(0), which is 0 without `eps`.
    """
    eigenvalues, eigenvectors = eigensystem(products)
    root = _inverse_root(eigenvalues + eps)
    beyond = eps**-0.5 if eps else 0.0
    slope = _divided_difference(root, torch.full_like(root, beyond))
    left, inner = (
        (eigenvectors * scale.unsqueeze(-2)) @ eigenvectors.mT for scale in (root, slope)
    )
    return left, inner, beyond


def zca_pairs(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first row of the symmetric inverse root of `C = [[a, b], [b, c]]`; no gradient.

    The root is `(adj(C) + r I) / (r sqrt(tr C + 2 r))` with `r = sqrt(det C)`, by Cayley-Hamilton.
    It is `C / tr(C)^1.5` for rank one, and 0 without variance. The computation scales `C` to trace
    1. `a` and `c` are variances (...), `b` covariances (...).

    >>> zca_pairs(torch.tensor(4.0), torch.tensor(0.0), torch.tensor(0.25))
    (tensor(0.5000), tensor(0.))
    """
    trace = a + c
    present = trace > _floor(trace)
    trace = torch.where(present, trace, 1.0)
    a, b, c = a / trace, b / trace, c / trace
    det = torch.addcmul(a * c, b, b, value=-1)  # about the smaller eigenvalue if that is tiny
    full = det > 2 * torch.finfo(det.dtype).eps
    r = torch.where(full, det, 0.0).sqrt()
    scale = torch.where(full, torch.addcmul(det, det, r, value=2), 1.0).mul_(trace).rsqrt_()
    scale.mul_(present)
    own, cross = torch.where(full, c + r, a), torch.where(full, 0 - b, b)  # -b of 0 prints as -0
    return own.mul_(scale), cross.mul_(scale)


class _ZCA(torch.autograd.Function):
    """Map `C -> U diag(s^-1/2) U^T`, with the gradient by divided differences (Daleckii-Krein)."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor) -> Tensor:
        eigenvalues, eigenvectors = eigensystem(covariance)
        root = _inverse_root(eigenvalues)
        ctx.save_for_backward(root, eigenvectors)
        return (eigenvectors * root.unsqueeze(-2)) @ eigenvectors.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        root: Tensor
        eigenvectors: Tensor
        root, eigenvectors = ctx.saved_tensors
        rotated = eigenvectors.mT @ gradient @ eigenvectors
        slopes = _divided_difference(root.unsqueeze(-1), root.unsqueeze(-2))
        return eigenvectors @ (slopes * rotated) @ eigenvectors.mT


class _PCA(torch.autograd.Function):
    """Map `C -> U diag(s^-1/2)`, columns by falling eigenvalue, largest entry of each positive."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor) -> Tensor:
        eigenvalues, eigenvectors = eigensystem(covariance)
        largest = eigenvectors.abs().argmax(dim=-2, keepdim=True)
        sign = torch.where(eigenvectors.gather(-2, largest) < 0, -1.0, 1.0).to(eigenvectors.dtype)
        eigenvectors = eigenvectors * sign
        root = _inverse_root(eigenvalues)
        ctx.save_for_backward(eigenvalues, root, eigenvectors)
        return eigenvectors * root.unsqueeze(-2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        eigenvalues: Tensor
        root: Tensor
        eigenvectors: Tensor
        eigenvalues, root, eigenvectors = ctx.saved_tensors
        rotated = eigenvectors.mT @ gradient
        gap = eigenvalues.unsqueeze(-2) - eigenvalues.unsqueeze(-1)
        noise = eigenvalues.shape[-1] * torch.finfo(gap.dtype).eps * eigenvalues[..., :1, None]
        # Axes of equal variance are not unique: their rotation gets no gradient.
        tied = gap.abs() <= noise
        axes = torch.where(tied, 0.0, rotated * root.unsqueeze(-2) / torch.where(tied, 1.0, gap))
        scales = torch.diag_embed(-0.5 * root**3 * rotated.diagonal(dim1=-2, dim2=-1))
        return eigenvectors @ (axes + scales) @ eigenvectors.mT


def zca(covariance: Tensor) -> Tensor:
    """Return `U diag(s)^-1/2 U^T`, the symmetric root, whose whitening changes x the least.

    >>> zca(torch.tensor([[4.0, 0.0], [0.0, 0.25]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 2.0000]])
    """
    apply: Callable[[Tensor], Tensor] = _ZCA.apply
    return apply(covariance)


def pca(covariance: Tensor) -> Tensor:
    """Return `U diag(s)^-1/2`, with axes sorted by variance; they may swap between batches.

    >>> pca(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([[ 0.4082,  0.7071],
            [ 0.4082, -0.7071]])
    """
    apply: Callable[[Tensor], Tensor] = _PCA.apply
    return apply(covariance)
