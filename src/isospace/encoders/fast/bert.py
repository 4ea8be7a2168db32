"""Families whose layers are built like BERT's.

RoBERTa, XLM-RoBERTa and CamemBERT have positions that begin after the padding position. DistilBERT
has other names, no token types, and no dropout after the attention. MPNet has RoBERTa's positions
and no token types; it adds a bias for the distance of two tokens, shared by all layers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from isospace.encoders.fast import post_norm
from isospace.encoders.fast.packed import Packing, current_dropout


def _is_encoder(config: Any) -> bool:
    positions = getattr(config, "position_embedding_type", None)
    return not (config.is_decoder or config.add_cross_attention) and positions in (None, "absolute")


def _bert_parts(layer: Any) -> post_norm.Layer:
    attention, end = layer.attention.self, layer.attention.output
    return post_norm.Layer(
        query=attention.query,
        key=attention.key,
        value=attention.value,
        heads=attention.num_attention_heads,
        share_rate=current_dropout(attention.dropout),
        attended=end.dense,
        attended_rate=current_dropout(end.dropout),
        attended_norm=end.LayerNorm,
        inner=layer.intermediate.dense,
        outer=layer.output.dense,
        outer_rate=current_dropout(layer.output.dropout),
        outer_norm=layer.output.LayerNorm,
    )


BERT = post_norm.PostNorm(lambda model: model.encoder.layer, _bert_parts, computes=_is_encoder)
ROBERTA = replace(BERT, behind_padding=True)


def _distilbert_parts(layer: Any) -> post_norm.Layer:
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


DISTILBERT = post_norm.PostNorm(
    lambda model: model.transformer.layer, _distilbert_parts, "activation"
)


def _mpnet_parts(layer: Any) -> post_norm.Layer:
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


def _distance_bias(model: Any, tokens: Packing) -> Tensor:
    """Return the (batch, heads, length, length) bias by distance and head, lowest at padding."""
    one = tokens.bias.new_empty(1, tokens.length)  # only the shape is used
    by_distance = model.encoder.compute_position_bias(one).to(tokens.dtype)
    return torch.where(tokens.bias == 0, by_distance, tokens.bias)


MPNET = post_norm.PostNorm(
    lambda model: model.encoder.layer, _mpnet_parts, behind_padding=True, bias=_distance_bias
)
