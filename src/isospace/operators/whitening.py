"""Whitening by inverse square roots of covariances; of a batch, in groups of columns.

A batch is whitened by its own statistics; its columns may be shuffled before they are cut. Rows are
sentences. Each index of the leading axes (each view) is whitened separately.

    y = x[:, permutation], cut into groups of dim / groups columns; per group
    C = (y - mean)^T (y - mean) / batch,   out = (y - mean) W(C),   W^T C W = I;
    out is returned in the original column order.

`zca` and `pca` map positive semi-definite matrices `C` (..., dim, dim) to `W` of the same shape
such that `W.T @ C @ W = I`. A centred row vector `x` is whitened as `x @ W`. Directions whose
variance is rounding noise become zero (the pseudo-inverse). Rank-deficient, constant or zero input
therefore gives neither errors nor NaN, and the gradient is exact as long as the rank is constant.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isospace.operators.similarity import centre, upcast, without_autocast


def in_float64(x: Tensor) -> Tensor:
    """Convert to float64, on the CPU if the device is MPS, which has no float64."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def eigensystem(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (..., dim), largest first, and eigenvectors as columns (..., dim, dim).

    They are computed in float64; single precision would lose another digit. The largest entry of
    each eigenvector is positive. A matrix with NaN or infinity counts as the identity.
    """
    matrix = in_float64(covariance)
    finite = matrix.sum((-2, -1), keepdim=True).isfinite()
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    eigenvalues, eigenvectors = torch.linalg.eigh(torch.where(finite, matrix, identity))
    largest = eigenvectors.abs().argmax(dim=-2, keepdim=True)
    eigenvectors = torch.where(eigenvectors.gather(-2, largest) < 0, -eigenvectors, eigenvectors)
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

    `-(r_i r_j)^2 / (r_i + r_j)` has no difference and so is exact for equal eigenvalues. For a null
    direction (r_j = 0) the result is `f(s_i) / s_i = r_i^3`.
    """
    total = r_i + r_j
    one_is_null = (r_i == 0) | (r_j == 0)
    inside = -((r_i * r_j).square() / torch.where(total > 0, total, 1.0))
    return torch.where(one_is_null, total**3, inside)


def zca_pairs(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first row of the symmetric inverse root of `C = [[a, b], [b, c]]`.

    The root is `(adj(C) + r I) / (r sqrt(tr C + 2 r))` with `r = sqrt(det C)`, by Cayley-Hamilton.
    It has no difference of eigenvalues, so its gradient is exact where they meet. The root is
    `C / tr(C)^1.5` for rank one, and 0 without variance. The computation scales `C` to trace 1. `a`
    and `c` are variances (...), `b` covariances (...).

    >>> zca_pairs(torch.tensor(4.0), torch.tensor(0.0), torch.tensor(0.25))
    (tensor(0.5000), tensor(0.))
    """
    trace = a + c
    present = trace > _floor(trace)
    trace = torch.where(present, trace, 1.0)
    a, b, c = a / trace, b / trace, c / trace
    det = torch.addcmul(a * c, b, b, value=-1)  # about the smaller eigenvalue if that is tiny
    full = det > 2 * torch.finfo(det.dtype).eps
    det = torch.where(full, det, 1.0)
    r = det.sqrt()
    scale = (torch.where(full, det * (1 + 2 * r), 1.0) * trace).rsqrt() * present
    own, cross = torch.where(full, c + r, a), torch.where(full, 0 - b, b)  # -b of 0 prints as -0
    return own * scale, cross * scale


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
    """Map `C -> U diag(s^-1/2)`, columns by falling eigenvalue."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor) -> Tensor:
        eigenvalues, eigenvectors = eigensystem(covariance)
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
    return _ZCA.apply(covariance)  # type: ignore[no-untyped-call]


def pca(covariance: Tensor) -> Tensor:
    """Return `U diag(s)^-1/2`, with axes sorted by variance; they may swap between batches.

    >>> pca(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([[ 0.4082,  0.7071],
            [ 0.4082, -0.7071]])
    """
    return _PCA.apply(covariance)  # type: ignore[no-untyped-call]


Method = Literal["zca", "pca"]
INVERSE_ROOTS = {"zca": zca, "pca": pca}


def regularise(covariance: Tensor, *, eps: float = 0.0, shrinkage: float = 0.0) -> Tensor:
    """Return `(1 - shrinkage) C + (shrinkage tr(C) / dim + eps) I` for matrices (..., dim, dim)."""
    if not eps and not shrinkage:
        return covariance
    dim = covariance.shape[-1]
    identity = torch.eye(dim, dtype=covariance.dtype, device=covariance.device)
    if not shrinkage:
        return covariance + eps * identity
    mean_variance = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    return (1 - shrinkage) * covariance + (shrinkage * mean_variance + eps) * identity


def permute_columns(x: Tensor, permutation: Tensor) -> Tensor:
    """Permute the columns of x (..., batch, dim) by permutations (..., dim)."""
    return torch.take_along_dim(x, permutation.to(x.device).unsqueeze(-2), dim=-1)


def split_groups(x: Tensor, groups: int) -> Tensor:
    """Cut `(..., batch, dim)` into groups of neighbouring columns: `(..., groups, batch, size)`.

    A number of groups that does not divide `dim` is a `ValueError`.
    """
    dim = x.shape[-1]
    if groups < 1 or dim % groups:
        divisors = [n for n in range(1, dim + 1) if dim % n == 0]
        raise ValueError(
            f"{dim} dimensions cannot be cut into {groups} groups of equal size; "
            f"the possible numbers of groups are {divisors}"
        )
    return x.reshape(*x.shape[:-1], groups, dim // groups).transpose(-2, -3)


def join_groups(x: Tensor) -> Tensor:
    """Join `(..., groups, batch, size)` into `(..., batch, groups * size)`."""
    return x.transpose(-2, -3).flatten(-2)


def whiten(
    x: Tensor,
    *,
    groups: int = 1,
    permutation: Tensor | None = None,
    method: Method = "zca",
    eps: float = 0.0,
    stop_gradient: bool = False,
) -> Tensor:
    """Whiten a batch by its own statistics (WhitenedCSE; SGW with a permutation).

    Args:
        x: (..., batch, dim), batch >= 2. Half precision is raised to float32, without autocast.
        groups: number of groups of columns; 1 is plain whitening, `dim` is standardisation.
        permutation: order of the columns before they are cut into groups, (..., dim); default: as
            they are.
        method: the inverse square root.
        eps: number added to every variance.
        stop_gradient: treat the whitening matrix as a constant (the mean is always differentiated).

    Returns:
        A tensor like `x`. Directions without variance become zero. There the whitening matrix is 0
        if `eps` is 0, else `eps ** -0.5`, which with `stop_gradient` multiplies the gradient.

    Raises:
        ValueError: fewer than 2 rows, or `groups` does not divide `dim`.
    """
    if x.dim() < 2 or x.shape[-2] < 2:
        raise ValueError(f"whitening needs (..., batch >= 2, dim); got {tuple(x.shape)}")
    with without_autocast(x):
        centred = centre(upcast(x))
        dealt = centred if permutation is None else permute_columns(centred, permutation)
        rows = split_groups(dealt, groups)
        batch, size = rows.shape[-2:]
        if method == "zca" and size == 2:
            out = _whiten_pairs(rows, eps, stop_gradient)
        elif method == "zca" and batch < size:
            out = _whiten_few_rows(rows, eps, stop_gradient)
        else:
            out = _whiten_columns(rows, method, eps, stop_gradient)
        out = join_groups(out)
        return out if permutation is None else permute_columns(out, permutation.argsort(-1))


def _whiten_columns(rows: Tensor, method: Method, eps: float, stop_gradient: bool) -> Tensor:
    """Multiply centred rows (..., batch, dim) by the inverse root of their covariance."""
    with torch.set_grad_enabled(torch.is_grad_enabled() and not stop_gradient):
        # In float32, `eps` can be below the rounding error of the largest variance.
        exact = in_float64(rows) if eps else rows
        cov = exact.mT @ exact / rows.shape[-2]
        matrices = INVERSE_ROOTS[method](regularise(cov, eps=eps))
    return rows @ matrices.to(rows)


def _whiten_few_rows(rows: Tensor, eps: float, stop_gradient: bool) -> Tensor:
    """Whiten fewer rows than columns by the symmetric root, from the products X X^T of rows.

    X^T X / N has the eigenvalues of X X^T / N, and zeros. With f(s) = (s + eps)^-1/2 and
    W = f(X^T X / N), X W = f(X X^T / N) X. With `stop_gradient` W is constant, and the gradient G
    of the result is passed on as G W = f(0) G + G X^T D X, with the divided differences
    D = (f(X X^T / N) - f(0) I) (X X^T)^-1.
    """
    x, count = in_float64(rows) if eps else rows, rows.shape[-2]
    if not stop_gradient:
        return (zca(regularise(x @ x.mT / count, eps=eps)) @ x).to(rows)
    constant = x.detach()
    eigenvalues, eigenvectors = eigensystem(constant @ constant.mT / count)
    root = _inverse_root(eigenvalues + eps)
    beyond = eps**-0.5 if eps else 0.0
    slope = _divided_difference(root, torch.full_like(root, beyond)) / count
    left, inner = (
        (eigenvectors * scale.unsqueeze(-2)) @ eigenvectors.mT for scale in (root, slope)
    )
    nothing = x - constant  # value 0, with the gradient of x
    through = (nothing @ constant.mT) @ inner @ constant + beyond * nothing
    return (left @ constant + through).to(rows)


def _whiten_pairs(rows: Tensor, eps: float, stop_gradient: bool) -> Tensor:
    """Whiten groups of two columns (..., batch, 2) by a closed form, which is faster."""
    partner = rows.flip(-1)
    with torch.set_grad_enabled(torch.is_grad_enabled() and not stop_gradient):
        variance, covariance = rows.square().mean(-2) + eps, (rows * partner).mean(-2)
        own, cross = zca_pairs(variance, covariance, variance.flip(-1))
    return rows * own.unsqueeze(-2) + partner * cross.unsqueeze(-2)
