"""Whitening of a batch by its own statistics, in groups of columns that may be shuffled.

Rows are sentences. Each index of the leading axes (each view) is whitened separately.

    y = x[:, permutation], cut into groups of dim / groups columns; per group
    C = (y - mean)^T (y - mean) / batch,   out = (y - mean) W(C),   W^T C W = I;
    out is returned in the original column order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isospace.operators.inverse_sqrt import in_float64, pca, zca, zca_by_rows, zca_pairs
from isospace.operators.similarity import (
    centre,
    centred_and_varying,
    upcast,
    without_autocast,
)

Method = Literal["zca", "pca"]
INVERSE_ROOTS = {"zca": zca, "pca": pca}


def regularise(covariance: Tensor, *, eps: float = 0.0, shrinkage: float = 0.0) -> Tensor:
    """Return `(1 - shrinkage) C + (shrinkage tr(C) / dim + eps) I` for matrices C (..., dim, dim).

    Shrinkage is a share: 1 leaves only the mean variance. `eps` is in units of variance.
    """
    if not eps and not shrinkage:
        return covariance
    dim = covariance.shape[-1]
    identity = torch.eye(dim, dtype=covariance.dtype, device=covariance.device)
    if not shrinkage:
        return covariance + eps * identity
    mean_variance = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    return (1 - shrinkage) * covariance + (shrinkage * mean_variance + eps) * identity


def permute_columns(x: Tensor, permutation: Tensor) -> Tensor:
    """Permute columns by one permutation (dim,), or by a permutation per view (view, dim)."""
    permutation = permutation.to(x.device)
    if permutation.dim() == 1:
        return x.index_select(-1, permutation)
    views = zip(x.unbind(), permutation, strict=True)
    return torch.stack([view.index_select(-1, order) for view, order in views])


def split_groups(x: Tensor, groups: int) -> Tensor:
    """Cut `(..., batch, dim)` into groups of neighbouring columns: `(..., groups, batch, size)`.

    Raises:
        ValueError: `groups` does not divide `dim`.
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
        permutation: order of the columns before they are cut into groups, (dim,) or (view, dim);
            default: as they are.
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
        x = upcast(x)
        if x.shape[-1] == 2 * groups and method == "zca":
            apply: Callable[..., Tensor] = _WhitenPairs.apply
            return apply(x, _partners(x, permutation), eps, stop_gradient)
        centred = centre(x)
        dealt = centred if permutation is None else permute_columns(centred, permutation)
        grouped = split_groups(dealt, groups)
        few = method == "zca" and grouped.shape[-2] < grouped.shape[-1]
        by = _whiten_few_rows if few else _whiten_columns
        out = join_groups(by(grouped, method, eps, stop_gradient))
        return out if permutation is None else permute_columns(out, permutation.argsort(-1))


def _whiten_columns(rows: Tensor, method: Method, eps: float, stop_gradient: bool) -> Tensor:
    """Multiply centred rows (..., batch, dim) by the inverse root of their covariance."""
    with torch.set_grad_enabled(torch.is_grad_enabled() and not stop_gradient):
        # In float32, `eps` can be below the rounding error of the largest variance.
        exact = in_float64(rows) if eps else rows
        cov = exact.mT @ exact / rows.shape[-2]
        matrices = INVERSE_ROOTS[method](regularise(cov, eps=eps))
    return rows @ matrices.to(rows)


def _whiten_few_rows(rows: Tensor, method: Method, eps: float, stop_gradient: bool) -> Tensor:
    """Whiten fewer rows than columns by the symmetric root.

    The matrix of products of rows is smaller than that of columns, and its root multiplies from the
    left. With `stop_gradient` the matrix on the right is constant, and the gradient differs: it is
    added separately.
    """
    x, count = in_float64(rows) if eps else rows, rows.shape[-2]
    if not stop_gradient:
        return (INVERSE_ROOTS[method](regularise(x @ x.mT / count, eps=eps)) @ x).to(rows)
    constant = x.detach()
    left, inner, beyond = zca_by_rows(constant @ constant.mT / count, eps=eps)
    nothing = x - constant  # value 0, with the gradient of x
    through = (nothing @ constant.mT) @ (inner / count) @ constant + beyond * nothing
    return (left @ constant + through).to(rows)


def _partners(x: Tensor, permutation: Tensor | None) -> Tensor:
    """Return the partner of each column in its group of two, (dim,) or (view, dim)."""
    if permutation is None:
        permutation = torch.arange(x.shape[-1], device=x.device)
    permutation = permutation.to(x.device)
    swapped = permutation.reshape(*permutation.shape[:-1], -1, 2).flip(-1).flatten(-2)
    return torch.empty_like(permutation).scatter_(-1, permutation, swapped)


class _WhitenPairs(torch.autograd.Function):
    """ZCA in groups of two: `out = x own + x[partner] cross` for centred x, two scales per column.

    Columns keep their order. This is faster than hundreds of matrix products of order 2. The
    gradient is written by hand, since at the size of a batch automatic differentiation would cost
    more than the arithmetic.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, partner: Tensor, eps: float, stop_gradient: bool) -> Tensor:
        x, varies = centred_and_varying(x)
        other = permute_columns(x, partner)
        products = x.square().sum(-2), (x * other).sum(-2)
        own, cross = zca_pairs(*_pair_covariance(*products, partner, x.shape[-2], eps))
        ctx.count, ctx.eps = x.shape[-2], eps
        rows = [] if stop_gradient else [x, other, *products]
        ctx.save_for_backward(own, cross, partner, varies, *rows)
        return (x * own.unsqueeze(-2)).addcmul_(other, cross.unsqueeze(-2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        own, cross, partner, varies, *rows = ctx.saved_tensors
        # The partner of a partner is the column itself, so `partner` is its own inverse.
        through = permute_columns(gradient * cross.unsqueeze(-2), partner)
        through.addcmul_(gradient, own.unsqueeze(-2))
        if rows:
            x, other, *products = rows
            scales = [(gradient * row).sum(-2) for row in (x, other)]
            with torch.enable_grad():
                leaves = [values.detach().requires_grad_() for values in products]
                a, b, c = _pair_covariance(leaves[0], leaves[1], partner, ctx.count, ctx.eps)
                root = zca(torch.stack([a, b, b, c], -1).reshape(*a.shape, 2, 2))
                firsts = [root[..., 0, 0], root[..., 0, 1]]
                by_square, by_mixed = torch.autograd.grad(firsts, leaves, scales)
            by_mixed = by_mixed + by_mixed.gather(-1, partner.expand_as(by_mixed))
            through.addcmul_(x, 2 * by_square.unsqueeze(-2))
            through.addcmul_(other, by_mixed.unsqueeze(-2))
        through.mul_(varies)
        return through.sub_(through.mean(dim=-2, keepdim=True)), None, None, None


def _pair_covariance(
    squares: Tensor, mixed: Tensor, partner: Tensor, count: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return variance, covariance and the partner's variance of each column, (..., dim)."""
    variance, mixed = squares / count, mixed / count
    other = variance.gather(-1, partner.expand_as(variance))
    return variance + eps, mixed, other + eps
