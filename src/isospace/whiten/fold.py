"""Put a fitted map behind an encoder: as modules of the model that is saved, or as a function."""

from __future__ import annotations

from typing import TypeAlias

import torch
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Module,
    Normalize,
    Router,
)
from torch import nn

from isospace.encoders.encoder import Encoder
from isospace.evaluation.pairs import Encode, PromptedEncoders, sided
from isospace.operators.fitted_whitening import WhiteningMap
from isospace.operators.flow import Flow

FittedMap: TypeAlias = WhiteningMap | Flow
"""A map of vectors, fitted once and the same for every sentence."""


def drop_normalize(encoder: Encoder) -> list[Module]:
    """Remove a closing L2 normalisation from an encoder, in place, and return its modules.

    Cosines stay what they are.
    """
    closing: list[Module] = []
    while isinstance(last := encoder.model[-1], Normalize):
        closing.append(last)
        encoder.model.pop(-1)
    return closing


def fold(encoder: Encoder, fitted: FittedMap) -> None:
    """Put a map behind an encoder's own modules, in place: dense layers, then L2 normalisation.

    The map must have been fitted on this encoder's vectors without their closing normalisation
    (`drop_normalize`), and takes its place. With a whitening the folder is transformer, pooling,
    dense, normalisation, the one order that servers which normalise last of all also compute. A
    flow is a stack of dense layers with ReLU between them.
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
    """Return an encoder of the same weights that maps its queries alone.

    Its last module is a `Router`: queries pass a dense layer without a bias, then L2 normalisation;
    all other texts pass what closed the encoder, so that their vectors stay the same bit for bit.

    Args:
        encoder: the encoder, whose modules the new one takes over.
        fitted: a map without a mean, fitted on its vectors without their closing normalisation.
    """
    closing = drop_normalize(encoder)
    weight = fitted.kernel.T.float().contiguous()
    dense = Dense(
        weight.shape[1],
        weight.shape[0],
        bias=False,
        activation_function=nn.Identity(),
        init_weight=weight,
    )
    routes: dict[str, list[Module]] = {"query": [dense, Normalize()], "document": closing}
    encoder.model.append(Router(routes, default_route="document").to(encoder.device))
    encoder.model.similarity_fn_name = "cosine"
    return type(encoder)(encoder.model, encoder.source, encoder.prompts)


def through(encode: Encode, whitening: FittedMap | None) -> PromptedEncoders:
    """Return an encoder with a map behind it, in float64; `None` is the encoder itself."""
    if whitening is None:
        return sided(encode)

    def mapped(own: Encode) -> Encode:
        return lambda texts: whitening(torch.from_numpy(own(texts)).double()).float().numpy()

    return sided(encode).each(mapped)


def through_queries(encode: Encode, whitening: FittedMap) -> PromptedEncoders:
    """Return an encoder with a map behind its queries alone, in float64."""
    own = sided(encode)
    return PromptedEncoders(through(own, whitening).queries, own.documents, own.plain)
