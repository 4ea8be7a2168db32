"""Tensor helpers for whitening, losses and heads. Rows are sentences."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor
from torch.nn.functional import normalize


def without_autocast(x: Tensor) -> AbstractContextManager[None]:
    """Return a context in which mixed precision is off on the device of `x`."""
    return torch.autocast(x.device.type, enabled=False)


def upcast(x: Tensor) -> Tensor:
    """Convert half precision to float32; keep float32 and float64."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def centre(x: Tensor) -> Tensor:
    """Subtract the mean over the batch, `(..., batch, dim)`.

    A column that is constant up to rounding becomes exactly zero, so that no later division
    amplifies the rounding error.
    """
    mean = x.mean(dim=-2, keepdim=True)
    centred = x - mean
    with torch.no_grad():
        highest, lowest = centred.amax(dim=-2, keepdim=True), centred.amin(dim=-2, keepdim=True)
        varies = torch.maximum(highest, -lowest) > 8 * torch.finfo(x.dtype).eps * mean.abs()
    return centred.mul_(varies)  # in place: new memory costs more than arithmetic


def standardise(x: Tensor, *, ddof: int = 0, eps: float = 0.0) -> Tensor:
    """Scale every column of `(..., batch, dim)` to mean 0 and variance 1 (divisor `batch - ddof`).

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
    """Return the cosines (n, m) of the rows of `a` (n, dim) with the rows of `b` (m, dim).

    >>> cosine_matrix(torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    tensor([[1., 0.]])
    """
    return normalize(a, dim=-1) @ normalize(b, dim=-1).T


def cosine_pairs(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosines (n,) of row i of `a` (n, dim) with row i of `b` (n, dim)."""
    return (normalize(a, dim=-1) * normalize(b, dim=-1)).sum(dim=-1)


def nearest_others(x: Tensor, count: int) -> Tensor:
    """Return a mask (n, n) of the `count` other rows of `x` (n, dim) nearest to each row.

    Near rows have large inner products. If there are fewer than `count` other rows, all are near.

    >>> nearest_others(torch.tensor([[1.0], [2.0], [-1.0]]), 1).int()
    tensor([[0, 1, 0],
            [1, 0, 0],
            [1, 0, 0]], dtype=torch.int32)
    """
    own = torch.eye(len(x), dtype=torch.bool, device=x.device)
    nearest = (x @ x.T).masked_fill(own, -torch.inf).topk(min(count, len(x) - 1)).indices
    return torch.zeros_like(own).scatter(1, nearest, True)


def with_diagonal(matrix: Tensor, diagonal: Tensor) -> Tensor:
    """Replace the diagonal of a square `matrix` (n, n) by `diagonal` (n,)."""
    own = torch.eye(len(matrix), dtype=torch.bool, device=matrix.device)
    return torch.where(own, diagonal.unsqueeze(-1), matrix)
