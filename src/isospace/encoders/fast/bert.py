"""BERT's layers on tokens alone: the arithmetic of transformers' own modules, without the padding.

Weights, rates and flags are read from the modules at every call, so that whatever trains, saves or
changes them sees no difference.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import Tensor, nn

from isospace.encoders.fast import packed
from isospace.encoders.fast.packed import Packing


def refusal(model: Any) -> str | None:
    """Why `forward` would not compute what this model does; `None` where it does."""
    config = model.config
    if config.is_decoder or config.add_cross_attention:
        return "it is a decoder"
    if config.hidden_act != "gelu":
        return f"its activation is {config.hidden_act}, not gelu"
    if getattr(config, "position_embedding_type", None) not in (None, "absolute"):
        return f"its positions are {config.position_embedding_type}, not absolute"
    if not hasattr(model, "embeddings") or not all(map(_is_plain, model.encoder.layer)):
        return "parts of its layers were replaced"
    return None


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
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    first_only: bool,
    layers: slice,
    states: Tensor | None,
    first_position: int = 0,
) -> Tensor:
    """The last hidden states, as `Family.forward` says; of a model with positions from here on."""
    length = input_ids.shape[1]
    input_ids, attention_mask = packed.round_up_length(input_ids, attention_mask)
    device = input_ids.device.type
    dtype = model.embeddings.word_embeddings.weight.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        packing = Packing(attention_mask)
        if states is None:
            ids = packing.pack(input_ids.flatten())
            states = _embed(model.embeddings, ids, first_position + packing.positions)
        else:
            extra = input_ids.shape[1] - length
            states = packing.pack(F.pad(states, (0, 0, 0, extra)).flatten(0, 1))
        bias = packed.padding_bias(attention_mask, dtype)
        last = model.encoder.layer[-1]
        for layer in model.encoder.layer[layers]:
            only = packing.first if first_only and layer is last else None
            context = _attention(layer.attention.self, states.to(dtype), bias, packing, only)
            states = states if only is None else states[only]
            states = _add_and_norm(layer.attention.output, context, states)
            hidden = F.gelu(_linear(states.to(dtype), layer.intermediate.dense))
            states = _add_and_norm(layer.output, hidden, states)
        if first_only:
            return states.unsqueeze(1)
        return packing.unpack(states).view(*input_ids.shape, -1)[:, :length]


def _embed(part: Any, ids: Tensor, positions: Tensor) -> Tensor:
    states = part.word_embeddings(ids) + part.token_type_embeddings.weight[0]
    states = states + part.position_embeddings(positions)
    return packed.dropout(part.LayerNorm(states), packed.rate_in_force(part.dropout))


def _linear(states: Tensor, *layers: nn.Linear) -> Tensor:
    """Linear layers of the same input, as one matrix product."""
    weight: Tensor = layers[0].weight
    bias: Tensor = layers[0].bias
    if len(layers) > 1:
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
    return F.linear(states, weight.to(states.dtype), bias.to(states.dtype))


def _add_and_norm(part: Any, hidden: Tensor, residual: Tensor) -> Tensor:
    """Dense, dropout, residual, layer norm: the end of attention and of the feed-forward block."""
    rate = packed.rate_in_force(part.dropout)
    normed: Tensor = part.LayerNorm(packed.dropout_add(_linear(hidden, part.dense), residual, rate))
    return normed


def _attention(
    part: Any, states: Tensor, bias: Tensor, packing: Packing, only: Tensor | None
) -> Tensor:
    """Self-attention; sentences are padded for it alone.

    Args:
        part: the attention's three projections.
        states: (packed tokens, dim).
        bias: what `padding_bias` made.
        packing: where the tokens are.
        only: packed rows of the tokens that ask, one in each sentence; `None` for all.

    Returns:
        (packed tokens or sentences, dim).
    """
    heads, width, batch = part.num_attention_heads, part.attention_head_size, packing.batch

    def by_head(tokens: Tensor, projections: int) -> tuple[Tensor, ...]:
        """(batch, heads, length, width) of each of the projections side by side in `tokens`."""
        padded = packing.unpack(tokens).view(batch, packing.length, projections, heads, width)
        return padded.permute(2, 0, 3, 1, 4).unbind()

    if only is None:
        query, key, value = by_head(_linear(states, part.query, part.key, part.value), 3)
    else:
        query = _linear(states[only], part.query).view(batch, heads, 1, width)
        key, value = by_head(_linear(states, part.key, part.value), 2)
    context = packed.attend(query, key, value, bias, packed.rate_in_force(part.dropout))
    rows = context.transpose(1, 2).reshape(-1, heads * width)
    return rows if only is not None else packing.pack(rows)
