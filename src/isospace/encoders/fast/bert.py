"""Families whose layers are built like BERT's, on packed tokens.

A layer: attention, dense, dropout, residual, layer norm; dense, gelu, dense, dropout, residual,
layer norm (post-norm, as in the Transformer of Vaswani et al. 2017).

RoBERTa, XLM-RoBERTa and CamemBERT have positions that begin after the padding position. DistilBERT
has other names, no token types, and no dropout after the attention. MPNet has RoBERTa's positions
and no token types; it adds a bias for the distance of two tokens, shared by all layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import Tensor, nn

from isospace.encoders.fast import packed
from isospace.encoders.fast.packed import Packing, current_dropout


@dataclass(frozen=True)
class Layer:
    """The parts of a layer and its current dropout rates, in the order of computation.

    `share_rate` is the dropout rate of the attention weights, and `attended` the dense layer after
    the attention. `inner` and `outer` are the dense layers before and after the activation. Each
    norm follows a residual addition.
    """

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    heads: int
    share_rate: float
    attended: nn.Linear
    attended_rate: float
    attended_norm: nn.LayerNorm
    inner: nn.Linear
    outer: nn.Linear
    outer_rate: float
    outer_norm: nn.LayerNorm

    @property
    def is_plain(self) -> bool:
        """True if no part was replaced, for example by an adapter."""
        dense = (self.query, self.key, self.value, self.attended, self.inner, self.outer)
        return all(type(part) is nn.Linear for part in dense) and all(
            type(part) is nn.LayerNorm for part in (self.attended_norm, self.outer_norm)
        )


@dataclass(frozen=True)
class PostNorm:
    """A model family with post-norm layers, described by its differences from BERT.

    Weights, rates and flags are read from the model's modules at every call. Code that trains,
    saves or changes the modules works as usual.

    Attributes:
        layers: function from a model to its layers.
        parts: function from a layer to its parts.
        activation: name of the activation setting in the model's config.
        behind_padding: true if positions begin after the padding position, the padding token's id.
        computes: function from a config to false if the model has other arithmetic.
        bias: function from a model and its tokens to the addend of attention scores,
            (batch, heads or 1, length or 1, length).
    """

    layers: Callable[[Any], Sequence[Any]]
    parts: Callable[[Any], Layer]
    activation: str = "hidden_act"
    behind_padding: bool = False
    computes: Callable[[Any], bool] = lambda _config: True
    bias: Callable[[Any, Packing], Tensor] = lambda _model, tokens: tokens.bias

    def fits(self, model: Any, /) -> bool:
        """Return true if `forward` can compute this model."""
        return (
            self.computes(model.config)
            and getattr(model.config, self.activation) == "gelu"
            and hasattr(model, "embeddings")
            and all(self.parts(layer).is_plain for layer in self.layers(model))
        )

    def forward(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, first_only: bool
    ) -> Tensor:
        """Return the last hidden states (`fast.forward`)."""
        part = model.embeddings
        with packed.tokens_alone(input_ids, attention_mask, part.word_embeddings.weight) as tokens:
            positions = tokens.positions
            if self.behind_padding:
                padding = part.position_embeddings.padding_idx
                positions = tokens.pack(packed.positions_behind(input_ids, padding))
            states = _embedded(part, tokens.ids, positions)
            layers = [self.parts(layer) for layer in self.layers(model)]
            bias = self.bias(model, tokens)
            for layer in layers:
                only = tokens.first if first_only and layer is layers[-1] else None
                context = _attention(layer, states.to(tokens.dtype), bias, tokens, only)
                states = states if only is None else states[only]
                hidden = packed.linear(context, layer.attended)
                hidden = packed.dropout_add(hidden, states, layer.attended_rate)
                states = layer.attended_norm(hidden)
                hidden = F.gelu(packed.linear(states.to(tokens.dtype), layer.inner))
                hidden = packed.linear(hidden, layer.outer)
                states = layer.outer_norm(packed.dropout_add(hidden, states, layer.outer_rate))
            return tokens.result(states, first_only)


def _embedded(part: Any, ids: Tensor, positions: Tensor) -> Tensor:
    """Add the embeddings of words, types (if any) and positions; apply layer norm and dropout.

    `part` is the embeddings module of a Hugging Face model. (packed tokens,) -> (packed tokens,
    dim).
    """
    states = part.word_embeddings(ids)
    if hasattr(part, "token_type_embeddings"):
        states = states + part.token_type_embeddings.weight[0]
    states = states + part.position_embeddings(positions)
    return packed.dropout(part.LayerNorm(states), packed.current_dropout(part.dropout))


def _attention(
    layer: Layer, states: Tensor, bias: Tensor, tokens: Packing, only: Tensor | None
) -> Tensor:
    """Compute self-attention, the only step on padded sentences.

    `only` has the packed row of the one query token of each sentence; `None`: every token is a
    query. (packed tokens, dim) -> (packed tokens or sentences, dim).
    """
    heads, width = layer.heads, layer.query.out_features // layer.heads
    if only is None:
        projected = packed.linear(states, layer.query, layer.key, layer.value)
        query, key, value = tokens.by_head(projected, heads, width)
        return tokens.pack(packed.attend(query, key, value, bias, layer.share_rate))
    query = packed.linear(states[only], layer.query).view(-1, heads, 1, width)
    key, value = tokens.by_head(packed.linear(states, layer.key, layer.value), heads, width)
    return packed.attend(query, key, value, bias[:, :, :1], layer.share_rate).squeeze(1)


def _bert_parts(layer: Any) -> Layer:
    attention, end = layer.attention.self, layer.attention.output
    return Layer(
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


BERT = PostNorm(
    lambda model: model.encoder.layer, _bert_parts, computes=lambda config: not config.is_decoder
)
ROBERTA = replace(BERT, behind_padding=True)


def _distilbert_parts(layer: Any) -> Layer:
    attention, block = layer.attention, layer.ffn
    return Layer(
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


DISTILBERT = PostNorm(lambda model: model.transformer.layer, _distilbert_parts, "activation")


def _mpnet_parts(layer: Any) -> Layer:
    attention = layer.attention.attn
    return Layer(
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


MPNET = PostNorm(
    lambda model: model.encoder.layer, _mpnet_parts, behind_padding=True, bias=_distance_bias
)
