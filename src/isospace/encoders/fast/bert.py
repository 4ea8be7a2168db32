"""BERT, and RoBERTa, XLM-RoBERTa and CamemBERT, whose positions begin behind the padding's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isospace.encoders.fast import post_norm
from isospace.encoders.fast.packed import current_dropout


def _why_not(config: Any) -> str | None:
    if config.is_decoder or config.add_cross_attention:
        return "it is a decoder"
    if getattr(config, "position_embedding_type", None) not in (None, "absolute"):
        return f"its positions are {config.position_embedding_type}, not absolute"
    return None


def _parts(layer: Any) -> post_norm.Layer:
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


BERT = post_norm.PostNorm(lambda model: model.encoder.layer, _parts, why_not=_why_not)
ROBERTA = replace(BERT, behind_padding=True)
