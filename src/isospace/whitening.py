"""Whitening of batches, in groups and shuffled, and the map that is fitted once on a corpus.

Rows are sentences; leading axes (views) are whitened one by one, each by its own statistics.

    y = x[:, permutation], cut into groups of dim / groups columns; per group
    C = (y - mean)^T (y - mean) / (batch - ddof),   out = (y - mean) W(C),   W^T C W = I;
    out goes back to the original column order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
        if split_groups(x, groups).shape[-1] == 2:
            # All first columns of the pairs before all second ones, as `_products` wants them.
            dealt = torch.arange(x.shape[-1]) if permutation is None else permutation
            permutation = dealt.reshape(*dealt.shape[:-1], groups, 2).mT.flatten(-2)
        if permutation is not None:
            x = permute_columns(x, permutation)
        x = centre(x)
        cov = _products(x, groups) / (x.shape[-2] - ddof)
        cov = regularise(cov.detach() if stop_gradient else cov, eps=eps, shrinkage=shrinkage)
        out = _times(x, INVERSE_ROOTS[method](cov))
        if permutation is None:
            return out
        return permute_columns(out, inverse_permutation(permutation))


def _products(x: Tensor, groups: int) -> Tensor:
    """`x^T x` of every group of columns, (..., batch, dim) -> (..., groups, size, size).

    Groups of two are the columns j and j + groups: hundreds of matrix products of order 2 cost more
    than the sums they consist of, and so these are sums over columns.
    """
    if x.shape[-1] != 2 * groups:
        grouped = split_groups(x, groups)
        return grouped.mT @ grouped
    squares = x.square().sum(-2)
    mixed = (x[..., :groups] * x[..., groups:]).sum(-2)
    rows = [squares[..., :groups], mixed, mixed, squares[..., groups:]]
    return torch.stack(rows, dim=-1).reshape(*mixed.shape, 2, 2)


def _times(x: Tensor, kernel: Tensor) -> Tensor:
    """Every group of columns, in `_products`' order, times its (..., groups, size, size) kernel."""
    groups, size = kernel.shape[-3:-1]
    if size != 2:
        return join_groups(split_groups(x, groups) @ kernel)
    own = kernel.diagonal(dim1=-2, dim2=-1).mT.flatten(-2).unsqueeze(-2)
    other = torch.cat([kernel[..., 1, 0], kernel[..., 0, 1]], dim=-1).unsqueeze(-2)
    return x * own + x.roll(groups, -1) * other


def momentum_update(running: Tensor, batch: Tensor, momentum: float) -> Tensor:
    """Running statistic `beta * running + (1 - beta) * batch` (WhitenedCSE, Eq. 13)."""
    return momentum * running + (1 - momentum) * batch


@dataclass(frozen=True, eq=False)
class WhiteningMap:
    """A fixed affine map `(x - mean) @ kernel`, fitted once and the same for every sentence.

    Attributes:
        mean: (dim,).
        kernel: (dim, k).
    """

    mean: Tensor
    kernel: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """`(..., dim) -> (..., k)`, not normalised."""
        return (x - self.mean.to(x)) @ self.kernel.to(x)

    @property
    def weight(self) -> Tensor:
        """Weight (k, dim) of the linear layer that does the same."""
        return self.kernel.T

    @property
    def bias(self) -> Tensor:
        """Bias (k,) of the linear layer that does the same."""
        return -self.mean @ self.kernel


def fit_whitening(x: Tensor, *, k: int | None = None, ddof: int = 1) -> WhiteningMap:
    """BERT-whitening (Su et al. 2021): the k leading PCA directions of a corpus, in float64.

    Args:
        x: sentence vectors (n, dim), n >= 2.
        k: columns kept; `None` keeps all. Directions without variance are columns of zeros.
        ddof: the covariance is divided by `n - ddof`; it changes the scale only.

    Raises:
        ValueError: wrong shape, or k outside 1..dim.
    """
    if x.dim() != 2 or len(x) < 2:
        raise ValueError(f"fitting needs vectors of shape (n >= 2, dim); got {tuple(x.shape)}")
    k = x.shape[1] if k is None else k
    if not 1 <= k <= x.shape[1]:
        raise ValueError(f"k must lie in 1..{x.shape[1]}; got {k}")
    with torch.no_grad():
        x = x.double()
        return WhiteningMap(x.mean(0), pca(covariance(x, ddof=ddof))[:, :k])
