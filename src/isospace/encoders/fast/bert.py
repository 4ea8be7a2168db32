"""BERT's layers on tokens alone: the arithmetic of transformers' own modules, without the padding.

A batch of sentences of unequal length spends a quarter of its time on padding, and PyTorch's
dropout on the CPU another sixth on drawing one random number per element. Here every step but the
attention runs on the real tokens, one after the other, and a random draw serves four elements.
Weights, rates and flags are read from the modules at every call, so that whatever trains, saves or
changes them sees no difference. Values equal the modules' own to rounding (tests/test_packed.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import Tensor, nn

_FIRST_POSITION = {"bert": 0, "roberta": 2, "xlm-roberta": 2, "camembert": 2}
"""Model types with BERT's layers -> position of the first token in the embedding table."""
_STEP = 128
"""Numbers of tokens are rounded up to this: matrix kernels are prepared once for every new size."""
_LENGTHS = 16
"""Sentences are padded to a multiple of this: attention over 27 tokens is slower than over 32."""


def packable(model: nn.Module) -> bool:
    """Whether `forward` computes what this Hugging Face model does."""
    config: Any = getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    if kind not in _FIRST_POSITION or not hasattr(model, "embeddings"):
        return False
    if config.is_decoder or config.add_cross_attention or config.hidden_act != "gelu":
        return False
    if getattr(config, "position_embedding_type", None) not in (None, "absolute"):
        return False
    parts: Any = model
    first = 0 if kind == "bert" else (parts.embeddings.position_embeddings.padding_idx or 0) + 1
    return first == _FIRST_POSITION[kind] and all(map(_is_plain, parts.encoder.layer))


def _is_plain(layer: Any) -> bool:
    """Whether a layer has its own parts; an adapter in their place would have to be called."""
    attention, block = layer.attention, layer.intermediate
    projections = (attention.self.query, attention.self.key, attention.self.value)
    linear = (*projections, attention.output.dense, block.dense, layer.output.dense)
    norms = (attention.output.LayerNorm, layer.output.LayerNorm)
    return all(type(part) is nn.Linear for part in linear) and all(
        type(part) is nn.LayerNorm for part in norms
    )


def forward(
    model: Any, input_ids: Tensor, attention_mask: Tensor, first_only: bool = False
) -> Tensor:
    """The last hidden states of a `packable` model.

    Args:
        model: the Hugging Face model; dropout follows its modules' flags and rates.
        input_ids: (batch, length) int64, padded on the right.
        attention_mask: (batch, length), 1 for tokens.
        first_only: only the first token's state is wanted ([CLS] pooling): the last layer then
            computes no other.

    Returns:
        (batch, length or 1, dim) in the weights' type, zero at the padding. Under autocast the
        matrix products run in autocast's type; sums, norms and the result do not.
    """
    length = input_ids.shape[1]
    extra = (0, -length % _LENGTHS)
    input_ids, attention_mask = F.pad(input_ids, extra), F.pad(attention_mask, extra)
    device = input_ids.device.type
    dtype = model.embeddings.word_embeddings.weight.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        rows = _Rows(attention_mask)
        states = _embed(model, rows.take(input_ids.flatten()), rows.positions)
        bias = _padding_bias(attention_mask, dtype)
        last = model.encoder.layer[-1]
        for layer in model.encoder.layer:
            only = rows.first if first_only and layer is last else None
            context = _attention(layer.attention.self, states.to(dtype), bias, rows, only)
            states = states if only is None else states[only]
            states = _output(layer.attention.output, context, states)
            hidden = F.gelu(_linear(states.to(dtype), layer.intermediate.dense))
            states = _output(layer.output, hidden, states)
        if first_only:
            return states.unsqueeze(1)
        padded = _apply(_Spread, states, rows)
        return padded.view(*input_ids.shape, -1)[:, :length]


class _Rows:
    """Where the tokens of a padded batch are."""

    def __init__(self, attention_mask: Tensor) -> None:
        batch, self.length = attention_mask.shape
        self.padded = batch * self.length
        self.tokens = attention_mask.flatten().nonzero().squeeze(1)
        self.count = len(self.tokens)
        self.extra = -self.count % _STEP if self.count > _STEP else 0
        self.first = F.pad(attention_mask.sum(1).cumsum(0), (1, 0))[:-1]
        self.positions = F.pad(self.tokens % self.length, (0, self.extra))

    def take(self, padded: Tensor) -> Tensor:
        """(batch * length, ...) -> (tokens, ...), rounded up with zeros."""
        packed = padded.new_empty(self.count + self.extra, *padded.shape[1:])
        torch.index_select(padded, 0, self.tokens, out=packed[: self.count])
        packed[self.count :] = 0
        return packed

    def spread(self, packed: Tensor) -> Tensor:
        """(tokens, ...) -> (batch * length, ...), zero at the padding."""
        padded = packed.new_zeros(self.padded, *packed.shape[1:])
        return padded.index_copy_(0, self.tokens, packed[: self.count])


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    result: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return result


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, padded: Tensor, rows: _Rows) -> Tensor:
        ctx.rows = rows
        return rows.take(padded)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return ctx.rows.spread(gradients[0]), None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed: Tensor, rows: _Rows) -> Tensor:
        ctx.rows = rows
        return rows.spread(packed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return ctx.rows.take(gradients[0]), None


def _embed(model: Any, ids: Tensor, positions: Tensor) -> Tensor:
    parts = model.embeddings
    states = parts.word_embeddings(ids) + parts.token_type_embeddings.weight[0]
    first = _FIRST_POSITION[model.config.model_type]
    states = states + parts.position_embeddings(positions + first)
    normed: Tensor = parts.LayerNorm(states)
    rate = _rate(parts.dropout)
    return normed * keep_mask(normed, rate) if rate else normed


def _linear(states: Tensor, *layers: nn.Linear) -> Tensor:
    """Linear layers of the same input, as one matrix product."""
    weight: Tensor = layers[0].weight
    bias: Tensor = layers[0].bias
    if len(layers) > 1:
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
    return F.linear(states, weight.to(states.dtype), bias.to(states.dtype))


def _output(part: Any, hidden: Tensor, residual: Tensor) -> Tensor:
    """Dense, dropout, residual, layer norm: the end of attention and of the feed-forward block."""
    hidden, rate = _linear(hidden, part.dense), _rate(part.dropout)
    summed = _apply(_DropoutAdd, hidden, residual, rate) if rate else residual + hidden
    normed: Tensor = part.LayerNorm(summed)
    return normed


def _padding_bias(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """(batch, 1, 1, length): what is added to the scores, lowest at padded keys."""
    bias = torch.zeros(attention_mask.shape, dtype=dtype, device=attention_mask.device)
    return bias.masked_fill_(attention_mask == 0, torch.finfo(dtype).min)[:, None, None]


def _attention(part: Any, states: Tensor, bias: Tensor, rows: _Rows, only: Tensor | None) -> Tensor:
    """Self-attention; sentences are padded for it alone.

    Args:
        part: the attention's three projections.
        states: (tokens, dim).
        bias: what `_padding_bias` made.
        rows: where the tokens are.
        only: positions of the tokens that ask, one in each sentence; `None` for all.

    Returns:
        (tokens or sentences, dim).
    """
    heads, width, batch = part.num_attention_heads, part.attention_head_size, len(rows.first)

    def split(padded: Tensor, parts: int) -> Sequence[Tensor]:
        by_part = padded.view(batch, rows.length, parts, heads, width)
        return by_part.permute(2, 0, 3, 1, 4).unbind()

    if only is None:
        together = _linear(states, part.query, part.key, part.value)
        query, key, value = split(_apply(_Spread, together, rows), 3)
    else:
        query = _linear(states[only], part.query).view(batch, heads, 1, width)
        key, value = split(_apply(_Spread, _linear(states, part.key, part.value), rows), 2)
    rate = _rate(part.dropout)
    # Without gradients PyTorch's own is as quick and rounds less; its backward is slow on the CPU.
    if rate or query.requires_grad:
        flat = [x.reshape(batch * heads, -1, width) for x in (query, key, value)]
        by_head = bias.expand(batch, heads, 1, rows.length).reshape(-1, 1, rows.length)
        context = _apply(_Attend, *flat, by_head, rate).view(batch, heads, -1, width)
    else:
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    padded = context.transpose(1, 2).reshape(-1, heads * width)
    return padded if only is not None else _apply(_Take, padded, rows)


def _rate(dropout: nn.Dropout) -> float:
    return dropout.p if dropout.training else 0.0


def keep_mask(like: Tensor, rate: float) -> Tensor:
    """Dropout's factors: 0 with probability `rate`, else 1 / (1 - rate).

    The rate is rounded to a multiple of 2^-16, and the scale belongs to the rounded rate. On the
    CPU an element costs 16 random bits in place of one draw.

    Args:
        like: shape, type and device of the result.
        rate: in [0, 1).
    """
    dropped = min(round(rate * 65536), 65535)
    draws = torch.empty((like.numel() + 3) // 4, dtype=torch.int64, device=like.device)
    bits = draws.random_(-(2**63), None).view(torch.int16)[: like.numel()]
    kept = (bits >= dropped - 32768).to(like.dtype)
    return kept.mul_(65536 / (65536 - dropped)).view(like.shape)


class _DropoutAdd(torch.autograd.Function):
    """residual + dropout(hidden), the residual in its own, finer type."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, residual: Tensor, rate: float) -> Tensor:
        mask = keep_mask(hidden, rate)
        ctx.save_for_backward(mask)
        return torch.addcmul(residual, hidden, mask)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (mask,) = ctx.saved_tensors
        return gradients[0].to(mask.dtype, copy=True).mul_(mask), gradients[0], None


class _Attend(torch.autograd.Function):
    """softmax(q k^T / sqrt(width) + bias), dropout, times v; all (n, length, width)."""

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
        kept = shares if mask is None else shares * mask
        to_value = torch.bmm(kept.transpose(1, 2), gradients[0])
        to_shares = torch.bmm(gradients[0], value.transpose(1, 2))
        if mask is not None:
            to_shares.mul_(mask)
        to_scores = torch._softmax_backward_data(to_shares, shares, -1, shares.dtype)
        to_scores.mul_(ctx.scale)
        to_key = torch.bmm(to_scores.transpose(1, 2), query)
        return torch.bmm(to_scores, key), to_key, to_value, None, None
