"""MPNet: BERT's layers; how far two tokens are apart adds to their score, in all layers the same.

It has no token types, and positions that begin behind the padding, as RoBERTa's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from isospace.encoders.fast import packed, post_norm
from isospace.encoders.fast.packed import Packing, rate_in_force


def refusal(model: Any) -> str | None:
    """Why `forward` would not compute what this model does; `None` where it does."""
    if model.config.hidden_act != "gelu":
        return f"its activation is {model.config.hidden_act}, not gelu"
    if not hasattr(model, "embeddings") or not all(_parts(x).is_plain for x in model.encoder.layer):
        return "parts of its layers were replaced"
    return None


def _parts(layer: Any) -> post_norm.Layer:
    attention = layer.attention.attn
    return post_norm.Layer(
        query=attention.q,
        key=attention.k,
        value=attention.v,
        heads=attention.num_attention_heads,
        share_rate=rate_in_force(attention.dropout),
        attended=attention.o,
        attended_rate=rate_in_force(layer.attention.dropout),
        attended_norm=layer.attention.LayerNorm,
        inner=layer.intermediate.dense,
        outer=layer.output.dense,
        outer_rate=rate_in_force(layer.output.dropout),
        outer_norm=layer.output.LayerNorm,
    )


def forward(
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    first_only: bool,
    layers: slice,
    states: Tensor | None,
) -> Tensor:
    """The last hidden states, as `Family.forward` says."""
    part = model.embeddings
    with packed.tokens_alone(input_ids, attention_mask, part.word_embeddings.weight) as tokens:
        if states is None:
            positions = packed.positions_behind(input_ids, part.position_embeddings.padding_idx)
            states = post_norm.embed(part, tokens.ids, tokens.pack(positions))
        else:
            states = tokens.pack(states)
        chosen = [_parts(layer) for layer in model.encoder.layer[layers]]
        return post_norm.run(chosen, states, _bias(model.encoder, tokens), tokens, first_only)


def _bias(encoder: Any, tokens: Packing) -> Tensor:
    """(batch, heads, length, length): by distance and head, lowest at padded keys."""
    one = tokens.bias.new_empty(1, tokens.length)  # its shape alone is read
    by_distance = encoder.compute_position_bias(one).to(tokens.dtype)
    return torch.where(tokens.bias == 0, by_distance, tokens.bias)
