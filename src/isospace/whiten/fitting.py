"""Fitting of a map on a corpus: a whitening by pairs of texts or by single texts, or a flow.

Maps are fitted on pooled vectors, before the encoder's final L2 normalisation. Each process encodes
its share of the texts; the result does not depend on the number of processes.

Application of a fitted map after an encoder: as modules to save, or as a function.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from numpy.typing import NDArray
from sentence_transformers.sentence_transformer.modules import Dense, Module, Normalize, Router
from torch import nn

from isospace.corpus.corpus import Corpus
from isospace.corpus.examples import evenly
from isospace.corpus.relations import FEW_PAIRS
from isospace.encoders.encoder import Encoder
from isospace.encoders.modules import routed
from isospace.encoders.settings import Side
from isospace.errors import UserError
from isospace.evaluation.pairs import Encode, PromptedEncoders, sided
from isospace.operators.fitted_whitening import Moments, PairMoments, WhiteningMap
from isospace.operators.flow import Flow, fit_flow
from isospace.recipes import find
from isospace.system.progress import Progress
from isospace.training.examples import related_texts
from isospace.whiten.whiten_config import By, Power, WhitenConfig

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


FITTED_ON, MOST_PAIRS = 3_000, 6_000
"""Sufficient and maximal number of pairs to fit a map. Pairs above the maximum change the map too
little to change a verdict (docs/results/closed-forms.md)."""
_CHUNK = 4096  # number of texts encoded at once
Maps = Mapping[Power, FittedMap | None]
"""Power -> fitted map; `None` for the unchanged model."""
T = TypeVar("T")
M = TypeVar("M", Moments, PairMoments)


@dataclass(frozen=True)
class Fitted:
    """A map for each power to try, and the number of pairs or texts that it is fitted on."""

    by: By
    count: int
    maps: Maps


def fit_maps(
    config: WhitenConfig,
    corpus: Corpus,
    encoder: Encoder,
    accelerator: Accelerator,
    progress: Progress,
) -> Fitted | None:
    """Encode the texts for fitting, and fit a map for each power that the settings try.

    The texts are pairs if the corpus has enough, or else single texts. All processes encode; those
    except the first return `None`.
    """
    own = slice(accelerator.process_index, None, accelerator.num_processes)
    sides = fit_texts(config, corpus, own)
    by: By = "texts" if len(sides) == 1 else "pairs"
    whitening, powers = config.whitening, config.powers(by)
    fit: Callable[[Any], FittedMap]
    if whitening.kind == "flow":
        vectors = _gathered(encoder, sides[0][1], progress).to(accelerator.device)
        count, fit = len(vectors), partial(_flow, vectors, progress)
    elif by == "texts":
        texts = _moments(encoder, sides, Moments.from_vectors, progress)
        count, fit = texts.count, partial(whitening.fit, texts)
    else:
        pairs = _moments(encoder, sides, PairMoments.from_pairs, progress)
        shrinkage = None if whitening.shrinkage == "ledoit-wolf" else whitening.shrinkage
        count = pairs.within.count
        fit = partial(pairs.fit, shrinkage=shrinkage, dim=whitening.dim)
    if not accelerator.is_main_process:
        return None
    maps = refusing(lambda: {power: None if power is None else fit(power) for power in powers})
    return Fitted(by, count, maps)


def fit_texts(
    config: WhitenConfig, corpus: Corpus, own: slice = slice(None)
) -> tuple[tuple[Side, list[str]], ...]:
    """Return the texts to fit on with their sides: two sides for pairs, one for single texts.

    `own` selects a part of the texts.
    """
    pairs = None if config.by == "texts" or config.why_not_pairs else _pairs(config, corpus)
    if pairs is not None:
        return ("query", pairs[0][own]), ("document", pairs[1][own])
    rows = fit_rows(corpus, max(1, len(config.text.columns)), config.sentences)
    return (("document", [corpus[int(row)] for row in rows[own]]),)


def fit_rows(corpus: Corpus, texts: int, count: int | None) -> NDArray[np.int64]:
    """Return the corpus rows of the texts to fit on, evenly spread, (n,), n <= `count`.

    An example has `texts` consecutive rows.
    """
    rows = (corpus.train_rows[:, None] + np.arange(texts)).ravel()
    if count is None or count >= len(rows):
        return rows
    return rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)]


def refusing(work: Callable[[], T]) -> T:
    """Call a function, and turn a `ValueError` of operators into a `UserError`."""
    try:
        return work()
    except ValueError as error:
        raise UserError(str(error)) from error


def _pairs(config: WhitenConfig, corpus: Corpus) -> tuple[list[str], list[str]] | None:
    """Return both sides of the corpus' pairs; `None` if they are too few and not required."""
    recipe = replace(find("pairs").config, text=config.text, pairs=config.pairs)
    most = config.sentences or MOST_PAIRS
    first, second = related_texts(recipe, corpus, max(most, FEW_PAIRS))
    if len(first) >= FEW_PAIRS:
        kept = evenly(len(first), most)
        return [first[place] for place in kept], [second[place] for place in kept]
    if config.by != "pairs":
        return None
    raise UserError(
        f"`by` pairs: whitening needs {FEW_PAIRS} pairs of different texts that belong "
        f"together, and the text gives {len(first)}. Give documents, or name the columns of pairs "
        "(`columns`)"
    )


def _moments(
    encoder: Encoder,
    sides: Sequence[tuple[Side, list[str]]],
    moments_of: Callable[..., M],
    progress: Progress,
) -> M:
    """Encode this process's texts; return the moments of the texts of all processes."""
    moments, count = moments_of(*[torch.empty(0, encoder.dim)] * len(sides)), len(sides[0][1])
    with progress.bar("fit", len(sides) * count) as advance:
        for start in range(0, count, _CHUNK):
            vectors = [
                encoder.embed(texts[start : start + _CHUNK], on_batch=advance, side=side)
                for side, texts in sides
            ]
            moments += moments_of(*map(torch.from_numpy, vectors))
    total: M = reduce(operator.add, gather_object([moments]))
    return total


def _gathered(encoder: Encoder, texts: list[str], progress: Progress) -> torch.Tensor:
    """Encode this process's texts as documents; return the vectors of all processes, (n, dim)."""
    with progress.bar("fit", len(texts)) as advance:
        parts = gather_object([encoder.embed(texts, on_batch=advance, side="document")])
    every = np.empty((sum(map(len, parts)), encoder.dim), np.float32)
    for number, part in enumerate(parts):
        every[number :: len(parts)] = part
    return torch.from_numpy(every)


def _flow(vectors: torch.Tensor, progress: Progress, _power: Power) -> Flow:
    """Fit a flow on vectors (n, dim); it has a single power."""
    with progress.bar("flow", len(vectors)) as advance:
        return fit_flow(vectors, advance)
