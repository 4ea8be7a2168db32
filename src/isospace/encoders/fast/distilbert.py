"""DistilBERT: BERT's layers by other names; no token types, no dropout behind the attention."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from isospace.encoders.fast import packed, post_norm
from isospace.encoders.fast.packed import rate_in_force


def refusal(model: Any) -> str | None:
    """Why `forward` would not compute what this model does; `None` where it does."""
    if model.config.activation != "gelu":
        return f"its activation is {model.config.activation}, not gelu"
    blocks = model.transformer.layer
    if not hasattr(model, "embeddings") or not all(_parts(block).is_plain for block in blocks):
        return "parts of its layers were replaced"
    return None


def _parts(layer: Any) -> post_norm.Layer:
    attention, block = layer.attention, layer.ffn
    return post_norm.Layer(
        query=attention.q_lin,
        key=attention.k_lin,
        value=attention.v_lin,
        heads=attention.n_heads,
        share_rate=rate_in_force(attention.dropout),
        attended=attention.out_lin,
        attended_rate=0.0,
        attended_norm=layer.sa_layer_norm,
        inner=block.lin1,
        outer=block.lin2,
        outer_rate=rate_in_force(block.dropout),
        outer_norm=layer.output_layer_norm,
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
            states = post_norm.embed(part, tokens.ids, tokens.positions)
        else:
            states = tokens.pack(states)
        chosen = [_parts(layer) for layer in model.transformer.layer[layers]]
        return post_norm.run(chosen, states, tokens.bias, tokens, first_only)
