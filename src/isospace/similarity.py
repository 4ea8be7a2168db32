"""The few tensor helpers that whitening, heads and objectives share. Rows are sentences."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor
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
    mean = x.mean(dim=-2, keepdim=True)
    centred = x - mean
    rounding = 8 * torch.finfo(x.dtype).eps * mean.detach().abs()
    constant = centred.detach().abs().amax(dim=-2, keepdim=True) <= rounding
    return centred * constant.logical_not()  # ten times the speed of a masked fill


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


def with_diagonal(matrix: Tensor, diagonal: Tensor) -> Tensor:
    """The square `matrix` (n, n) with its diagonal replaced by `diagonal` (n,)."""
    own = torch.eye(len(matrix), dtype=torch.bool, device=matrix.device)
    return torch.where(own, diagonal.unsqueeze(-1), matrix)


def softmax_losses(logits: Tensor) -> Tensor:
    """`-log softmax(logits[i])[i]` for every row i of (n, m), m >= n: (n,)."""
    return torch.logsumexp(logits, dim=-1) - logits.diagonal()


def info_nce(anchor: Tensor, positive: Tensor, temperature: float) -> Tensor:
    """Mean over i of `-log softmax_j(cos(anchor_i, positive_j) / temperature)[i]`, a scalar.

    One direction only: rows of `anchor` (batch, dim) choose among rows of `positive`.
    """
    return softmax_losses(cosine_matrix(anchor, positive) / temperature).mean()
