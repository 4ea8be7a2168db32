"""DistilBERT: BERT's layers by other names; no token types, no dropout behind the attention."""

from __future__ import annotations

from typing import Any

from isospace.encoders.fast import post_norm
from isospace.encoders.fast.packed import current_dropout


def _parts(layer: Any) -> post_norm.Layer:
    attention, block = layer.attention, layer.ffn
    return post_norm.Layer(
        query=attention.q_lin,
        key=attention.k_lin,
        value=attention.v_lin,
        heads=attention.n_heads,
        share_rate=current_dropout(attention.dropout),
        attended=attention.out_lin,
        attended_rate=0.0,
        attended_norm=layer.sa_layer_norm,
        inner=block.lin1,
        outer=block.lin2,
        outer_rate=current_dropout(block.dropout),
        outer_norm=layer.output_layer_norm,
    )


DISTILBERT = post_norm.PostNorm(lambda model: model.transformer.layer, _parts, "activation")
