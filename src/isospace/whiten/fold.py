"""Application of a fitted map after an encoder: as modules to save, or as a function."""

from __future__ import annotations

from typing import TypeAlias

import torch
from sentence_transformers.sentence_transformer.modules import Dense, Module, Normalize, Router
from torch import nn

from isospace.encoders.encoder import Encoder
from isospace.encoders.modules import routed
from isospace.evaluation.pairs import Encode, PromptedEncoders, sided
from isospace.operators.fitted_whitening import WhiteningMap
from isospace.operators.flow import Flow

FittedMap: TypeAlias = WhiteningMap | Flow
"""A fitted map of vectors, equal for all texts."""


def drop_normalize(encoder: Encoder) -> list[Module]:
    """Remove the final L2 normalisation from an encoder, in place, and return its modules.

    Cosines do not change.
    """
    closing: list[Module] = []
    while isinstance(last := encoder.model[-1], Normalize):
        closing.append(last)
        encoder.model.pop(-1)
    return closing


def fold(encoder: Encoder, fitted: FittedMap) -> None:
    """Append a map to an encoder, in place: dense layers, then L2 normalisation.

    The map must be fitted on this encoder's vectors without final normalisation (`drop_normalize`).
    A whitening gives the order transformer, pooling, dense, normalisation. Only this order is also
    right on servers that always normalise last. A flow is a stack of dense layers with ReLU between
    them.
    """
    drop_normalize(encoder)
    layers = fitted.dense_layers()
    for number, (weight, bias) in enumerate(layers, 1):
        dense = Dense(
            weight.shape[1],
            weight.shape[0],
            activation_function=nn.Identity() if number == len(layers) else nn.ReLU(),
            init_weight=weight.float().contiguous(),
            init_bias=bias.float(),
        )
        encoder.model.append(dense.to(encoder.device))
    encoder.model.append(Normalize())
    encoder.model.similarity_fn_name = "cosine"


def fold_queries(encoder: Encoder, fitted: WhiteningMap) -> Encoder:
    """Return an encoder with the same weights that maps only its queries.

    The last module is a `Router`. Queries pass a dense layer without bias, then L2 normalisation.
    Other texts pass the encoder's own final normalisation, and keep their vectors bit for bit. The
    encoder is changed. The map has no mean, and was fitted without final normalisation.
    """
    closing = drop_normalize(encoder)
    routes = {"query": [_matrix(fitted), Normalize()], "document": closing}
    encoder.model.append(Router(routes, default_route="document").to(encoder.device))
    encoder.model.similarity_fn_name = "cosine"
    return type(encoder)(encoder.model, encoder.source, encoder.prompts)


def two_encoders(queries: Encoder, fitted: WhiteningMap | None, documents: Encoder) -> Encoder:
    """Return an encoder with modules of its own for queries; both parts are used in it.

    `fitted` maps the vectors of queries, as in `fold_queries`. All other texts keep the vectors of
    `documents` bit for bit.
    """
    if fitted is not None:
        drop_normalize(queries)
        queries.model.extend([_matrix(fitted), Normalize()])
    model = routed(queries.model, documents.model)
    return Encoder(model, documents.source, documents.prompts)


def _matrix(fitted: WhiteningMap) -> Dense:
    """Return a map without a mean as a dense layer."""
    weight = fitted.kernel.T.float().contiguous()
    return Dense(
        weight.shape[1],
        weight.shape[0],
        bias=False,
        activation_function=nn.Identity(),
        init_weight=weight,
    )


def through(encode: Encode, whitening: FittedMap | None) -> PromptedEncoders:
    """Return an encoder followed by a map in float64; `None`: the encoder itself."""
    if whitening is None:
        return sided(encode)

    def mapped(own: Encode) -> Encode:
        return lambda texts: whitening(torch.from_numpy(own(texts)).double()).float().numpy()

    return sided(encode).each(mapped)


def through_queries(encode: Encode, whitening: FittedMap) -> PromptedEncoders:
    """Return an encoder that applies a map in float64 to its queries only."""
    own = sided(encode)
    return PromptedEncoders(through(own, whitening).queries, own.documents, own.plain)
