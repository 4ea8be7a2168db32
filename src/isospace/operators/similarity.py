"""Tensor helpers that whitening, losses and heads share. Rows are sentences."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import normalize


def without_autocast(x: Tensor) -> AbstractContextManager[None]:
    """A context in which mixed precision is off on the device of `x`."""
    return torch.autocast(x.device.type, enabled=False)


def upcast(x: Tensor) -> Tensor:
    """Half precision becomes float32; float32 and float64 stay what they are."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def centre(x: Tensor) -> Tensor:
    """Subtract the mean over the batch, `(..., batch, dim)`.

    A column that is constant but for the rounding of its mean comes out as exact zeros, so that no
    later division blows the rounding up.
    """
    apply: Callable[[Tensor], Tensor] = _Centre.apply
    return apply(x)


def centred_and_varying(x: Tensor) -> tuple[Tensor, Tensor]:
    """`centre` without a gradient, and which columns are not constant, (..., 1, dim).

    What can be done in place is: at the size of a batch, new memory costs more than arithmetic.
    """
    mean = x.mean(dim=-2, keepdim=True)
    centred = x - mean
    highest, lowest = centred.amax(dim=-2, keepdim=True), centred.amin(dim=-2, keepdim=True)
    varies = torch.maximum(highest, -lowest) > 8 * torch.finfo(x.dtype).eps * mean.abs()
    return centred.mul_(varies), varies


def back_through_centre(gradient: Tensor, varies: Tensor) -> Tensor:
    """The gradient of `centre`, written over the gradient (..., batch, dim) of its result."""
    gradient.mul_(varies)
    return gradient.sub_(gradient.mean(dim=-2, keepdim=True))


class _Centre(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        centred, varies = centred_and_varying(x)
        ctx.save_for_backward(varies)
        return centred

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return back_through_centre(gradient.clone(), *ctx.saved_tensors)


def standardise(x: Tensor, *, ddof: int = 0, eps: float = 0.0) -> Tensor:
    """Mean 0 and variance 1 (divisor `batch - ddof`) for every column of `(..., batch, dim)`.

    `eps` is added to the variance (batch norm: `ddof=0, eps=1e-5`). Constant columns become 0.

    >>> standardise(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    tensor([[-1.,  0.],
            [ 1.,  0.]])
    """
    centred = centre(x)
    variance = centred.square().sum(dim=-2, keepdim=True) / (x.shape[-2] - ddof) + eps
    positive = variance > 0
    scale = torch.where(positive, variance, 1.0).rsqrt()
    return centred * torch.where(positive, scale, 0.0)


def cosine_matrix(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of every row of `a` (n, dim) with every row of `b` (m, dim): (n, m).

    >>> cosine_matrix(torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    tensor([[1., 0.]])
    """
    return normalize(a, dim=-1) @ normalize(b, dim=-1).T


def cosine_pairs(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of row i of `a` with row i of `b`, both (n, dim): (n,)."""
    return (normalize(a, dim=-1) * normalize(b, dim=-1)).sum(dim=-1)


def nearest_others(x: Tensor, count: int) -> Tensor:
    """Which rows of `x` (n, dim) have the largest inner products with row i: (n, n), bool.

    Of the others `count` in every row, or all of them where there are fewer.

    >>> nearest_others(torch.tensor([[1.0], [2.0], [-1.0]]), 1).int()
    tensor([[0, 1, 0],
            [1, 0, 0],
            [1, 0, 0]], dtype=torch.int32)
    """
    own = torch.eye(len(x), dtype=torch.bool, device=x.device)
    nearest = (x @ x.T).masked_fill(own, -torch.inf).topk(min(count, len(x) - 1)).indices
    return torch.zeros_like(own).scatter(1, nearest, True)


def with_diagonal(matrix: Tensor, diagonal: Tensor) -> Tensor:
    """The square `matrix` (n, n) with its diagonal replaced by `diagonal` (n,)."""
    own = torch.eye(len(matrix), dtype=torch.bool, device=matrix.device)
    return torch.where(own, diagonal.unsqueeze(-1), matrix)
