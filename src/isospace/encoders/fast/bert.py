"""BERT's layers on tokens alone: the arithmetic of transformers' own modules, without the padding.

Weights, rates and flags are read from the modules at every call, so that whatever trains, saves or
changes them sees no difference.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from isospace.encoders.fast import packed, post_norm
from isospace.encoders.fast.packed import rate_in_force


def refusal(model: Any) -> str | None:
    """Why `forward` would not compute what this model does; `None` where it does."""
    config = model.config
    if config.is_decoder or config.add_cross_attention:
        return "it is a decoder"
    if config.hidden_act != "gelu":
        return f"its activation is {config.hidden_act}, not gelu"
    if getattr(config, "position_embedding_type", None) not in (None, "absolute"):
        return f"its positions are {config.position_embedding_type}, not absolute"
    if not hasattr(model, "embeddings") or not all(_parts(x).is_plain for x in model.encoder.layer):
        return "parts of its layers were replaced"
    return None


def _parts(layer: Any) -> post_norm.Layer:
    attention, end = layer.attention.self, layer.attention.output
    return post_norm.Layer(
        query=attention.query,
        key=attention.key,
        value=attention.value,
        heads=attention.num_attention_heads,
        share_rate=rate_in_force(attention.dropout),
        attended=end.dense,
        attended_rate=rate_in_force(end.dropout),
        attended_norm=end.LayerNorm,
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
    positions: Tensor | None = None,
) -> Tensor:
    """The last hidden states, as `Family.forward` says.

    The positions (batch, length) are counted from 0 where none are given.
    """
    part = model.embeddings
    with packed.tokens_alone(input_ids, attention_mask, part.word_embeddings.weight) as tokens:
        if states is None:
            at = tokens.positions if positions is None else tokens.pack(positions)
            states = post_norm.embed(part, tokens.ids, at)
        else:
            states = tokens.pack(states)
        chosen = [_parts(layer) for layer in model.encoder.layer[layers]]
        return post_norm.run(chosen, states, tokens.bias, tokens, first_only)
