"""Maps after an encoder: the texts to fit on, their moments, and the map as modules or a function.

Maps are fitted on pooled vectors, before the encoder's final L2 normalisation.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers.sentence_transformer.modules import Dense, Module, Normalize, Router
from torch import nn

from isospace.config import By, TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.encoders.encoder import Encoder
from isospace.encoders.modules import routed
from isospace.encoders.settings import Precision, Side
from isospace.evaluation.pairs import Encode, PromptedEncoders, sided
from isospace.operators.fitted_whitening import Moments, PairMoments, WhiteningMap
from isospace.operators.flow import Flow
from isospace.system.devices import has_bf16
from isospace.training.examples import related_texts

FittedMap: TypeAlias = WhiteningMap | Flow

FITTED_ON = 3_000
"""Number of pairs to fit a map on; of single texts it is twice as many. More pairs change a map too
little to change a verdict (docs/results/closed-forms.md)."""

_AT_ONCE = 6_000  # pairs or texts whose moments are summed at a time, to limit memory


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

    The map must be fitted on vectors without final normalisation (`drop_normalize`). The
    normalisation comes last, because some servers always normalise last. A flow is a stack of dense
    layers with ReLU between them.
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
    """Return an encoder that maps only its queries; `encoder` is changed.

    The last module is a `Router`. Queries pass a dense layer without bias, then L2 normalisation.
    Other texts keep their vectors bit for bit. The map must have no mean.
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


def through(encode: Encode, fitted: FittedMap | None) -> PromptedEncoders:
    """Return an encoder followed by a map in float64; `None`: the encoder itself."""
    if fitted is None:
        return sided(encode)

    def mapped(own: Encode) -> Encode:
        return lambda texts: fitted(torch.from_numpy(own(texts)).double()).float().numpy()

    return sided(encode).each(mapped)


def through_queries(encode: Encode, fitted: WhiteningMap) -> PromptedEncoders:
    """Return an encoder that applies a map in float64 to its queries only."""
    own = sided(encode)
    return PromptedEncoders(through(own, fitted).queries, own.documents, own.plain)


def fit_texts(
    config: TrainConfig, corpus: Corpus, by: By, count: int
) -> tuple[tuple[Side, list[str]], ...]:
    """Return at most `count` pairs or single texts to fit on, evenly spread, with their sides."""
    if by == "pairs":
        first, second = related_texts(config, corpus, count)
        return ("query", first), ("document", second)
    rows = fit_rows(corpus, max(1, len(config.text.columns)), count)
    return (("document", [corpus[int(row)] for row in rows]),)


def fit_rows(corpus: Corpus, texts: int, count: int) -> NDArray[np.int64]:
    """Return the corpus rows of the texts to fit on, evenly spread, (n,), n <= `count`.

    An example has `texts` consecutive rows.
    """
    rows = (corpus.train_rows[:, None] + np.arange(texts)).ravel()
    if count >= len(rows):
        return rows
    return rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)]


def fit_precision(config: TrainConfig) -> Precision:
    """Return the arithmetic for the texts to fit on: that of training."""
    return "bf16" if config.precision != "float32" and has_bf16() else "float32"


def moments_of(sides: Sequence[NDArray[np.float32]]) -> Moments | PairMoments:
    """Return the moments of pairs, whose two sides are (n, dim), or of the one side of texts."""
    starts = range(0, max(1, len(sides[0])), _AT_ONCE)
    parts = [[torch.from_numpy(side[at : at + _AT_ONCE]) for side in sides] for at in starts]
    if len(sides) == 2:
        return reduce(operator.add, (PairMoments.from_pairs(*part) for part in parts))
    return reduce(operator.add, (Moments.from_vectors(*part) for part in parts))
