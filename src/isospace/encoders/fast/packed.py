"""Shared parts of the fast paths: tokens without padding, fast dropout, attention with gradients.

In a batch of unequal sentences, padding takes a quarter of the time. PyTorch's dropout on the CPU
takes another sixth, because it draws one random number per element. Here every step except
attention runs on the packed real tokens, and one random draw serves four elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import Tensor, nn

_Move = Callable[[Tensor], Tensor]

_STEP = 128
"""Token counts are rounded up to a multiple of this, since each new size costs kernel set-up."""
_LENGTHS = 16
"""Lengths are padded to a multiple of this: attention over 27 tokens is slower than over 32."""


@contextmanager
def tokens_alone(input_ids: Tensor, attention_mask: Tensor, weights: Tensor) -> Iterator[Packing]:
    """Pack the tokens of a batch, and switch autocast off inside the block.

    Ids and mask are (batch, length), padded on the right. `Packing.dtype`, the type of matrix
    products, is autocast's type if autocast was on, and the weights' type otherwise.
    """
    device, dtype = input_ids.device.type, weights.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        yield Packing(input_ids, attention_mask, dtype)


def _round_up_length(padded: Tensor) -> Tensor:
    """Pad (batch, length, ...) with zeros to a multiple of `_LENGTHS`."""
    extra = -padded.shape[1] % _LENGTHS
    return F.pad(padded, (0, 0) * (padded.dim() - 2) + (0, extra)) if extra else padded


class Packing:
    """Positions of the tokens in a padded batch; "packed" rows hold tokens without padding.

    Attributes:
        length: padded length for attention, rounded up.
        ids: (packed tokens,) int64 token ids.
        positions: (packed tokens,) position of each token in its sentence.
        first: (batch,) packed row of each sentence's first token.
        bias: (batch, 1, 1, length) addend of attention scores: 0, or the lowest number at padding.
    """

    def __init__(self, input_ids: Tensor, attention_mask: Tensor, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._own_length = attention_mask.shape[1]
        mask = _round_up_length(attention_mask)
        self.batch, self.length = mask.shape
        self._tokens = mask.flatten().nonzero().squeeze(1)
        self._count = len(self._tokens)
        self._extra = -self._count % _STEP if self._count > _STEP else 0
        self.ids = self.pack(input_ids)
        self.positions = F.pad(self._tokens % self.length, (0, self._extra))
        self.first = F.pad(mask.sum(1).cumsum(0), (1, 0))[:-1]
        bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        self.bias = bias.masked_fill_(mask == 0, torch.finfo(dtype).min)[:, None, None]

    def pack(self, padded: Tensor) -> Tensor:
        """Pack (batch, length, ...) to (packed tokens, ...), with zero rows at the end."""
        rows = _round_up_length(padded).flatten(0, 1)
        return apply(_Moved, rows, self._take_tokens, self._spread_tokens)

    def unpack(self, packed: Tensor) -> Tensor:
        """Unpack (packed tokens, ...) to (batch, length, ...), zero at the padding."""
        padded = apply(_Moved, packed, self._spread_tokens, self._take_tokens)
        return padded.view(self.batch, self.length, *packed.shape[1:])

    def result(self, packed: Tensor, first_only: bool) -> Tensor:
        """Return (batch, original length or 1, dim), for all tokens or only the first ones.

        `packed` is (packed tokens, dim), or (batch, dim) for the first tokens only.
        """
        return packed.unsqueeze(1) if first_only else self.unpack(packed)[:, : self._own_length]

    def by_head(self, packed: Tensor, heads: int, width: int) -> tuple[Tensor, ...]:
        """Split packed projections into tensors (batch, heads, length, width), one each."""
        padded = self.unpack(packed).view(self.batch, self.length, -1, heads, width)
        return padded.permute(2, 0, 3, 1, 4).unbind()

    def _take_tokens(self, padded: Tensor) -> Tensor:
        """Pack (batch * length, ...) without a gradient."""
        packed = padded.new_empty(self._count + self._extra, *padded.shape[1:])
        torch.index_select(padded, 0, self._tokens, out=packed[: self._count])
        packed[self._count :] = 0
        return packed

    def _spread_tokens(self, packed: Tensor) -> Tensor:
        """Unpack to (batch * length, ...) without a gradient."""
        padded = packed.new_zeros(self.batch * self.length, *packed.shape[1:])
        return padded.index_copy_(0, self._tokens, packed[: self._count])


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """Apply an autograd function; this helper gives the result a type."""
    return function.apply(*arguments)


class _Moved(torch.autograd.Function):
    """Rows moved by a function, and their gradients by its inverse."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, move: _Move, move_back: _Move) -> Tensor:
        ctx.move_back = move_back
        return move(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return ctx.move_back(gradients[0]), None, None


def current_dropout(dropout: nn.Dropout) -> float:
    """Return the current rate of a dropout module: 0 in evaluation mode."""
    return dropout.p if dropout.training else 0.0


def keep_mask(like: Tensor, rate: float) -> Tensor:
    """Draw the factors of dropout: 0 with probability `rate`, else 1 / (1 - rate).

    The rate is rounded to a multiple of 2^-16, also in the scale. An element takes 16 random bits,
    a quarter of a draw.
    """
    dropped = min(round(rate * 65536), 65535)
    draws = torch.empty((like.numel() + 3) // 4, dtype=torch.int64, device=like.device)
    bits = draws.random_(-(2**63), None).view(torch.int16)[: like.numel()]
    factors = (bits >= dropped - 32768).to(like.dtype)
    return factors.mul_(65536 / (65536 - dropped)).view(like.shape)


def dropout(states: Tensor, rate: float) -> Tensor:
    """Return the states after dropout; the rate may be 0."""
    return states * keep_mask(states, rate) if rate else states


def dropout_add(hidden: Tensor, residual: Tensor, rate: float) -> Tensor:
    """Return residual + dropout(hidden); the residual may have higher precision."""
    return apply(_DropoutAdd, hidden, residual, rate) if rate else residual + hidden


class _DropoutAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, residual: Tensor, rate: float) -> Tensor:
        mask = keep_mask(hidden, rate)
        ctx.save_for_backward(mask)
        return torch.addcmul(residual, hidden, mask)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (mask,) = ctx.saved_tensors
        return gradients[0].to(mask.dtype, copy=True).mul_(mask), gradients[0], None


def linear(states: Tensor, *layers: nn.Linear) -> Tensor:
    """Compute linear layers with the same input as one matrix product.

    A single layer may lack a bias; several layers must all have one.
    """
    weight: Tensor = layers[0].weight
    bias: Tensor | None = layers[0].bias
    if len(layers) > 1:
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
    return F.linear(
        states, weight.to(states.dtype), None if bias is None else bias.to(states.dtype)
    )


def positions_behind(input_ids: Tensor, padding: int) -> Tensor:
    """Return (batch, length) positions that begin at the padding id + 1, as in RoBERTa.

    A padding token has the padding id as position, also inside a text.
    """
    tokens = input_ids != padding
    return tokens.cumsum(1) * tokens + padding


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, rate: float) -> Tensor:
    """Return dropout(softmax(q k^T / sqrt(width) + bias)) v.

    Args:
        query: (batch, heads, length or 1, width).
        key: (batch, heads, length, width).
        value: (batch, heads, length, width).
        bias: (batch, heads or 1, length or 1, length), such as `Packing.bias`; a bias with a
            gradient must not be broadcast.
        rate: dropout rate of the attention weights.

    Returns:
        (batch, length or 1, heads * width).
    """
    batch, heads, _, width = key.shape
    # Without gradients PyTorch's attention is as fast and rounds less; its backward is slow on CPU.
    if not (rate or query.requires_grad):
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    else:
        flat = [x.reshape(batch * heads, -1, width) for x in (query, key, value)]
        by_head = bias.expand(batch, heads, -1, -1).flatten(0, 1)
        context = apply(_Attend, *flat, by_head, rate).view(batch, heads, -1, width)
    return context.transpose(1, 2).flatten(2)


class _Attend(torch.autograd.Function):
    """`attend` for tensors (n, length, width)."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, rate: float
    ) -> Tensor:
        ctx.scale = 1 / math.sqrt(query.shape[-1])
        shares = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=ctx.scale).softmax(-1)
        mask = keep_mask(shares, rate) if rate else None
        ctx.save_for_backward(query, key, value, shares, mask)
        return torch.bmm(shares if mask is None else shares * mask, value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        query, key, value, shares, mask = ctx.saved_tensors
        weights = shares if mask is None else shares * mask
        to_value = torch.bmm(weights.transpose(1, 2), gradients[0])
        to_shares = torch.bmm(gradients[0], value.transpose(1, 2))
        if mask is not None:
            to_shares.mul_(mask)
        to_scores = torch._softmax_backward_data(to_shares, shares, -1, shares.dtype)
        to_bias = to_scores.clone() if ctx.needs_input_grad[3] else None
        to_scores.mul_(ctx.scale)
        to_key = torch.bmm(to_scores.transpose(1, 2), query)
        return torch.bmm(to_scores, key), to_key, to_value, to_bias, None
