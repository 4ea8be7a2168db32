"""MPNet: BERT's layers; how far two tokens are apart adds to their score, in all layers the same.

It has no token types, and positions that begin behind the padding's, as RoBERTa's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from isospace.encoders.fast import post_norm
from isospace.encoders.fast.packed import Packing, current_dropout


def _parts(layer: Any) -> post_norm.Layer:
    attention = layer.attention.attn
    return post_norm.Layer(
        query=attention.q,
        key=attention.k,
        value=attention.v,
        heads=attention.num_attention_heads,
        share_rate=current_dropout(attention.dropout),
        attended=attention.o,
        attended_rate=current_dropout(layer.attention.dropout),
        attended_norm=layer.attention.LayerNorm,
        inner=layer.intermediate.dense,
        outer=layer.output.dense,
        outer_rate=current_dropout(layer.output.dropout),
        outer_norm=layer.output.LayerNorm,
    )


def _bias(model: Any, tokens: Packing) -> Tensor:
    """Return (batch, heads, length, length): by distance and head, lowest at padded keys."""
    one = tokens.bias.new_empty(1, tokens.length)  # its shape alone is read
    by_distance = model.encoder.compute_position_bias(one).to(tokens.dtype)
    return torch.where(tokens.bias == 0, by_distance, tokens.bias)


MPNET = post_norm.PostNorm(
    lambda model: model.encoder.layer, _parts, behind_padding=True, bias=_bias
)
