"""Whitening of batches by their own statistics, in groups and shuffled.

Rows are sentences; leading axes (views) are whitened one by one, each by its own statistics.

    y = x[:, permutation], cut into groups of dim / groups columns; per group
    C = (y - mean)^T (y - mean) / (batch - ddof),   out = (y - mean) W(C),   W^T C W = I;
    out goes back to the original column order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from isospace.inverse_sqrt import cholesky, newton_schulz, pca, zca
from isospace.similarity import centre, upcast, without_autocast

Method = Literal["zca", "pca", "cholesky", "newton-schulz"]
INVERSE_ROOTS = {"zca": zca, "pca": pca, "cholesky": cholesky, "newton-schulz": newton_schulz}


def covariance(x: Tensor, *, ddof: int) -> Tensor:
    """Covariance over the batch, `(..., batch, dim) -> (..., dim, dim)`, divisor `batch - ddof`.

    >>> covariance(torch.tensor([[1.0, 0.0], [3.0, 0.0]]), ddof=0)
    tensor([[1., 0.],
            [0., 0.]])
    """
    centred = centre(x)
    return centred.mT @ centred / (x.shape[-2] - ddof)


def regularise(covariance: Tensor, *, eps: float = 0.0, shrinkage: float = 0.0) -> Tensor:
    """`(1 - shrinkage) C + (shrinkage tr(C) / dim + eps) I` of matrices (..., dim, dim).

    Shrinkage is relative (1 = only the mean variance is left), eps is in units of variance.
    """
    if not eps and not shrinkage:
        return covariance
    dim = covariance.shape[-1]
    identity = torch.eye(dim, dtype=covariance.dtype, device=covariance.device)
    mean_variance = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    return (1 - shrinkage) * covariance + (shrinkage * mean_variance + eps) * identity


def permute_columns(x: Tensor, permutation: Tensor) -> Tensor:
    """`out[..., j] = x[..., permutation[j]]`; a permutation (dim,), or one per view (view, dim)."""
    apply: Callable[[Tensor, Tensor], Tensor] = _Permute.apply
    return apply(x, permutation.to(x.device))


def inverse_permutation(permutation: Tensor) -> Tensor:
    """The permutation(s) (..., dim) that undo these."""
    places = torch.arange(permutation.shape[-1], device=permutation.device)
    return torch.empty_like(permutation).scatter_(-1, permutation, places.expand_as(permutation))


class _Permute(torch.autograd.Function):
    """The gradient goes back by the inverse permutation: a read, not a scattered sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, permutation: Tensor) -> Tensor:
        ctx.save_for_backward(permutation)
        if permutation.dim() == 1:
            return x.index_select(-1, permutation)
        views = zip(x.unbind(), permutation, strict=True)
        return torch.stack([view.index_select(-1, order) for view, order in views])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (permutation,) = ctx.saved_tensors
        return permute_columns(gradients[0], inverse_permutation(permutation)), None


def split_groups(x: Tensor, groups: int) -> Tensor:
    """`(..., batch, dim) -> (..., groups, batch, dim / groups)`, neighbouring columns together.

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
    """`(..., groups, batch, size) -> (..., batch, groups * size)`, the inverse of the split."""
    return x.transpose(-2, -3).flatten(-2)


def whiten(
    x: Tensor,
    *,
    groups: int = 1,
    permutation: Tensor | None = None,
    method: Method = "zca",
    ddof: int = 0,
    eps: float = 0.0,
    shrinkage: float = 0.0,
    stop_gradient: bool = False,
) -> Tensor:
    """Whiten a batch by its own statistics (WhitenedCSE; SGW with a permutation).

    Args:
        x: (..., batch, dim), batch >= 2. Half precision is raised to float32, autocast is off.
        groups: number of groups of columns; 1 is plain whitening, `dim` is standardisation.
        permutation: order in which columns are dealt to groups, (dim,) or (view, dim); `None`
            leaves neighbours together. It is undone at the end.
        method: the inverse square root.
        ddof: the covariance is divided by `batch - ddof`.
        eps: added to every variance.
        shrinkage: share of every covariance that is replaced by its mean variance.
        stop_gradient: treat the whitening matrix as a constant (the mean is always differentiated).

    Returns:
        A tensor like `x`. Directions without variance come out as zeros when `eps` is 0.

    Raises:
        ValueError: fewer than 2 rows, or `groups` does not divide `dim`.
    """
    if x.dim() < 2 or x.shape[-2] < 2:
        raise ValueError(f"whitening needs (..., batch >= 2, dim); got {tuple(x.shape)}")
    with without_autocast(x):
        x = upcast(x)
        whiten_groups = _whiten_pairs if x.shape[-1] == 2 * groups else _whiten_groups

        def inverse_root(products: Tensor) -> Tensor:
            """The whitening matrices, from `x^T x` of every group."""
            cov = (products.detach() if stop_gradient else products) / (x.shape[-2] - ddof)
            return INVERSE_ROOTS[method](regularise(cov, eps=eps, shrinkage=shrinkage))

        return whiten_groups(centre(x), groups, permutation, inverse_root)


def _whiten_groups(
    x: Tensor, groups: int, permutation: Tensor | None, inverse_root: Callable[[Tensor], Tensor]
) -> Tensor:
    dealt = x if permutation is None else permute_columns(x, permutation)
    grouped = split_groups(dealt, groups)
    out = join_groups(grouped @ inverse_root(grouped.mT @ grouped))
    return out if permutation is None else permute_columns(out, inverse_permutation(permutation))


def _whiten_pairs(
    x: Tensor, groups: int, permutation: Tensor | None, inverse_root: Callable[[Tensor], Tensor]
) -> Tensor:
    """Groups of two: columns stay where they are, and sums over columns do the matrix products.

    Hundreds of matrix products of order 2 would cost more than the sums they consist of.
    """
    if permutation is None:
        permutation = torch.arange(x.shape[-1], device=x.device)
    # The first columns of all pairs, then the second ones; and where each column stands in it.
    pairs = permutation.to(x.device).reshape(*permutation.shape[:-1], groups, 2)
    dealt = pairs.mT.flatten(-2)
    place = inverse_permutation(dealt)
    partner = permute_columns(x, dealt.roll(groups, -1).gather(-1, place))

    def read(values: Tensor, index: Tensor) -> Tensor:
        return values.gather(-1, index.expand_as(values))

    squares, mixed = read(x.square().sum(-2), dealt), read((x * partner).sum(-2), dealt)
    products = [squares[..., :groups], *[mixed[..., :groups]] * 2, squares[..., groups:]]
    stacked = torch.stack(products, dim=-1)
    kernel = inverse_root(stacked.reshape(*stacked.shape[:-1], 2, 2))
    own = read(torch.cat([kernel[..., 0, 0], kernel[..., 1, 1]], -1), place)
    other = read(torch.cat([kernel[..., 1, 0], kernel[..., 0, 1]], -1), place)
    return x * own.unsqueeze(-2) + partner * other.unsqueeze(-2)


def momentum_update(running: Tensor, batch: Tensor, momentum: float) -> Tensor:
    """Running statistic `beta * running + (1 - beta) * batch` (WhitenedCSE, Eq. 13)."""
    return momentum * running + (1 - momentum) * batch
