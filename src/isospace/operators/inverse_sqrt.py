"""Inverse square roots of covariance matrices: ZCA and PCA.

Every function maps positive semi-definite matrices `C` (..., dim, dim) to `W` of the same shape
such that `W.T @ C @ W = I`, so a centred row vector `x` is whitened as `x @ W`. Directions
whose variance is rounding noise are sent to zero (the pseudo-inverse): nothing fails and nothing is
NaN on rank-deficient, constant or zero input, and the gradient is the exact one at constant rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def in_float64(x: Tensor) -> Tensor:
    """Convert to float64; tensors of MPS, which has no float64, go to the CPU."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def eigensystem(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (..., dim), largest first, and eigenvectors as columns (..., dim, dim).

    Matrices of order 2 use the closed form, which needs no iteration and is exact where the two
    eigenvalues meet (any rotation is right there). Order 3 has a closed form too (Cardano), but it
    loses half the digits at nearly equal eigenvalues; 3 and more go to a batched `eigh`, in float64
    because single precision there costs another digit of the result.
    A matrix with NaN or infinity is read as the identity: the rows that made it are NaN anyway.
    """
    if covariance.shape[-1] == 2:
        return _eigensystem_2x2(covariance)
    eigenvalues, eigenvectors = _eigh(covariance)
    return eigenvalues.flip(-1), eigenvectors.flip(-1)


def _eigh(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigensystem of order 3 and more, smallest eigenvalue first."""
    matrix = in_float64(covariance)
    finite = matrix.sum((-2, -1), keepdim=True).isfinite()
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    eigenvalues, eigenvectors = torch.linalg.eigh(torch.where(finite, matrix, identity))
    return eigenvalues.to(covariance), eigenvectors.to(covariance)


def _eigensystem_2x2(covariance: Tensor) -> tuple[Tensor, Tensor]:
    a, b, c = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
    half = (a - c) / 2
    radius = torch.hypot(half, b)
    largest = (a + c) / 2 + radius
    # The determinant keeps the digits of a small eigenvalue that a difference would lose.
    smallest = torch.where(largest > 0, (a * c - b * b) / largest, 0.0)
    # Two formulas for the leading eigenvector; each is free of cancellation on its side.
    left = half >= 0
    x, y = torch.where(left, radius + half, b), torch.where(left, b, radius - half)
    # Divided by the larger first: the norm of denormal numbers is not accurate.
    size = torch.maximum(x.abs(), y.abs())
    x = torch.where(size > 0, x / size, 1.0)
    y = torch.where(size > 0, y / size, 0.0)
    norm = torch.hypot(x, y)
    x, y = x / norm, y / norm
    eigenvectors = torch.stack([torch.stack([x, -y], -1), torch.stack([y, x], -1)], -2)
    return torch.stack([largest, smallest], -1), eigenvectors


def _inverse_root(eigenvalues: Tensor) -> Tensor:
    """Return `s ** -0.5`, and 0 where `s` is the rounding of the largest eigenvalue."""
    largest = eigenvalues.amax(-1, keepdim=True)
    rounding = eigenvalues.shape[-1] * torch.finfo(eigenvalues.dtype).eps * largest
    present = eigenvalues > rounding.clamp(min=_floor(eigenvalues))
    return torch.where(present, torch.where(present, eigenvalues, 1.0).rsqrt(), 0.0)


def _floor(x: Tensor) -> float:
    """Return the variance below which gradients would overflow: it counts as zero."""
    return float(torch.finfo(x.dtype).tiny ** 0.5)


def _divided_difference(r_i: Tensor, r_j: Tensor) -> Tensor:
    """Return `(f(s_i) - f(s_j)) / (s_i - s_j)` of `f(s) = s ** -0.5`, given `r = f(s)` of both.

    Written without the difference, `-(r_i r_j)^2 / (r_i + r_j)`, so that it is exact where
    eigenvalues meet. For a null direction (r_j = 0) it is `f(s_i) / s_i = r_i^3`.
    """
    total = r_i + r_j
    one_is_null = (r_i == 0) | (r_j == 0)
    inside = -((r_i * r_j).square() / torch.where(total > 0, total, 1.0))
    return torch.where(one_is_null, total**3, inside)


def zca_by_rows(products: Tensor, *, eps: float) -> tuple[Tensor, Tensor, float]:
    """Return the parts of a covariance's symmetric root, from fewer rows than columns; no gradient.

    Of rows X (n, dim) the covariance X^T X / N has the eigenvalues of X X^T / N, and 0 beyond. With
    f(s) = (s + eps)^-1/2 and W = f(X^T X / N), by the eigenvectors of the second alone,

        X W = left X,    and for any rows G:    G W = f(0) G + G X^T inner X.

    Args:
        products: X X^T / N, (..., n, n).
        eps: added to every variance.

    Returns:
        `left` = f(X X^T / N) and N `inner`, both (..., n, n), and f(0), which is 0 without `eps`.
    """
    eigenvalues, eigenvectors = _eigh(products)
    root = _inverse_root(eigenvalues + eps)
    beyond = eps**-0.5 if eps else 0.0
    slope = _divided_difference(root, torch.full_like(root, beyond))
    left, inner = (
        (eigenvectors * scale.unsqueeze(-2)) @ eigenvectors.mT for scale in (root, slope)
    )
    return left, inner, beyond


def zca_pairs(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first row of the symmetric root of matrices `[[a, b], [b, c]]`; no gradient.

    `(adj(C) + r I) / (r sqrt(tr C + 2 r))` with `r = sqrt(det C)`, by Cayley-Hamilton. A matrix of
    rank one gives `C / tr(C)^1.5`, one without variance 0. Computed for trace 1. `a` and `c` are
    variances (...), `b` covariances (...); the two results are those of `a`.

    >>> zca_pairs(torch.tensor(4.0), torch.tensor(0.0), torch.tensor(0.25))
    (tensor(0.5000), tensor(0.))
    """
    trace = a + c
    present = trace > _floor(trace)
    trace = torch.where(present, trace, 1.0)
    a, b, c = a / trace, b / trace, c / trace
    det = torch.addcmul(
        a * c, b, b, value=-1
    )  # the smaller eigenvalue, where it is next to nothing
    full = det > 2 * torch.finfo(det.dtype).eps
    r = torch.where(full, det, 0.0).sqrt()
    scale = torch.where(full, torch.addcmul(det, det, r, value=2), 1.0).mul_(trace).rsqrt_()
    scale.mul_(present)
    own, cross = torch.where(full, c + r, a), torch.where(full, 0 - b, b)  # -b of 0 prints as -0
    return own.mul_(scale), cross.mul_(scale)


def _zca_2x2(covariance: Tensor) -> Tensor:
    a, b, c = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
    (first, cross), (last, _) = zca_pairs(a, b, c), zca_pairs(c, b, a)
    return torch.stack([first, cross, cross, last], -1).reshape(covariance.shape)


class _ZCA(torch.autograd.Function):
    """`C -> U diag(s^-1/2) U^T` with the gradient by divided differences (Daleckii-Krein)."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor) -> Tensor:
        if covariance.shape[-1] == 2:
            ctx.save_for_backward(covariance)
            return _zca_2x2(covariance)
        eigenvalues, eigenvectors = _eigh(covariance)
        root = _inverse_root(eigenvalues)
        ctx.save_for_backward(root, eigenvectors)
        return (eigenvectors * root.unsqueeze(-2)) @ eigenvectors.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        saved: tuple[Tensor, ...] = ctx.saved_tensors
        if len(saved) == 1:
            eigenvalues, eigenvectors = eigensystem(saved[0])
            root = _inverse_root(eigenvalues)
        else:
            root, eigenvectors = saved
        rotated = eigenvectors.mT @ gradient @ eigenvectors
        slopes = _divided_difference(root.unsqueeze(-1), root.unsqueeze(-2))
        return eigenvectors @ (slopes * rotated) @ eigenvectors.mT


class _PCA(torch.autograd.Function):
    """`C -> U diag(s^-1/2)`, columns by falling eigenvalue, largest entry of each positive."""

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
        # Axes of equal variance have no derivative of their own; their rotation gets none.
        tied = gap.abs() <= noise
        axes = torch.where(tied, 0.0, rotated * root.unsqueeze(-2) / torch.where(tied, 1.0, gap))
        scales = torch.diag_embed(-0.5 * root**3 * rotated.diagonal(dim1=-2, dim2=-1))
        return eigenvectors @ (axes + scales) @ eigenvectors.mT


def zca(covariance: Tensor) -> Tensor:
    """Return the symmetric root `U diag(s)^-1/2 U^T`, the whitening that moves x the least.

    >>> zca(torch.tensor([[4.0, 0.0], [0.0, 0.25]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 2.0000]])
    """
    apply: Callable[[Tensor], Tensor] = _ZCA.apply
    return apply(covariance)


def pca(covariance: Tensor) -> Tensor:
    """Return `U diag(s)^-1/2`: axes sorted by variance, which may swap from batch to batch.

    >>> pca(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([[ 0.4082,  0.7071],
            [ 0.4082, -0.7071]])
    """
    apply: Callable[[Tensor], Tensor] = _PCA.apply
    return apply(covariance)
