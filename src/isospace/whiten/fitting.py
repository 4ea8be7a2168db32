"""Fitting of a map on a corpus: a whitening by pairs of texts or by single texts, or a flow.

Maps are fitted on pooled vectors, before the encoder's final L2 normalisation. Each process encodes
its share of the texts; the result does not depend on the number of processes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from numpy.typing import NDArray

from isospace.corpus.corpus import Corpus
from isospace.corpus.relations import FEW_PAIRS
from isospace.encoders.encoder import Encoder
from isospace.encoders.prompts import Side
from isospace.errors import TooLittle, UserError
from isospace.evaluation.pairs import Asked
from isospace.operators.fitted_flow import fit_flow
from isospace.operators.fitted_whitening import Moments
from isospace.operators.pair_whitening import PairMoments
from isospace.recipes import find
from isospace.system.progress import Progress
from isospace.training.examples import Examples
from isospace.whiten.fold import FittedMap
from isospace.whiten.whiten_config import By, Power, WhitenConfig

FITTED_ON, MOST_PAIRS = 3_000, 6_000
"""Sufficient and maximal number of pairs to fit a map. Pairs above the maximum change the map too
little to change a verdict (docs/results/closed-forms.md)."""
_CHUNK = 4096  # number of texts encoded at once
T = TypeVar("T")


@dataclass(frozen=True)
class Fitted:
    """The result of one pass over the corpus.

    Attributes:
        by: kind of the fitted texts: pairs or single texts.
        count: number of pairs or texts.
        fit: function from a power to its map.
    """

    by: By
    count: int
    fit: Callable[[Power], FittedMap]


def fit_maps(
    config: WhitenConfig,
    corpus: Corpus,
    encoder: Encoder,
    accelerator: Accelerator,
    progress: Progress,
) -> Fitted:
    """Encode the texts for fitting: pairs if the corpus has enough, or else single texts.

    Raises:
        UserError: the user asked for pairs, and the corpus has too few.
    """
    place, step = accelerator.process_index, accelerator.num_processes
    if config.by != "texts" and not config.why_not_pairs:
        pairs = _pairs(config, corpus)
        if pairs is not None:
            first, second = pairs
            own = first[place::step], second[place::step]
            return Fitted("pairs", len(first), _by_pairs(config, encoder, *own, progress))
    rows = fit_rows(corpus, max(1, len(config.text.columns)), config.sentences)
    texts = [corpus[int(row)] for row in rows[place::step]]
    if config.whitening.kind == "flow":
        vectors = _gathered(encoder, texts, len(rows), step, progress).to(accelerator.device)
        return Fitted("texts", len(rows), _flow(config, vectors, progress))
    return Fitted("texts", len(rows), _by_texts(config, encoder, texts, progress))


def fit_texts(config: WhitenConfig, corpus: Corpus) -> tuple[Asked, ...]:
    """Return the texts that `fit_maps` encodes."""
    pairs = None if config.by == "texts" or config.why_not_pairs else _pairs(config, corpus)
    if pairs is not None:
        return ("query", pairs[0]), ("document", pairs[1])
    rows = fit_rows(corpus, max(1, len(config.text.columns)), config.sentences)
    return (("document", [corpus[int(row)] for row in rows]),)


def fit_rows(corpus: Corpus, texts: int, count: int | None) -> NDArray[np.int64]:
    """Return the corpus rows of the texts to fit on, (n,), n <= `count`.

    Args:
        corpus: corpus with the training examples.
        texts: number of texts per example, in consecutive rows.
        count: number of texts, evenly spread over all; `None`: all texts.
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
    """Return both sides of the corpus' pairs; `None` if they are too few and not required.

    Raises:
        UserError: the user asked for pairs, and the corpus has too few.
    """
    recipe = replace(find("pairs").config, batch_size=FEW_PAIRS, text=config.text)
    recipe = replace(recipe, pairs=config.pairs, model=config.model)
    try:
        examples = Examples.from_corpus(recipe, corpus)
    except UserError as error:
        if config.by != "pairs":
            return None
        few = isinstance(error, TooLittle)
        what = f"it has fewer than {FEW_PAIRS}" if few else "it is lines of text"
        raise UserError(
            f"`by` pairs: whitening needs {FEW_PAIRS} pairs of texts that belong together, and "
            f"{what}. Give documents, or name the columns of pairs (`columns`)"
        ) from error
    return examples.related_texts(config.sentences or MOST_PAIRS)


def _by_pairs(
    config: WhitenConfig,
    encoder: Encoder,
    first: list[str],
    second: list[str],
    progress: Progress,
) -> Callable[[Power], FittedMap]:
    """Encode this process's pairs, and return a function from a power to its map."""
    empty = torch.empty(0, encoder.dim)
    moments = PairMoments.from_pairs(empty, empty)
    with progress.bar("fit", 2 * len(first)) as advance:
        for start in range(0, len(first), _CHUNK):
            part = slice(start, start + _CHUNK)
            sides: tuple[tuple[list[str], Side], ...]
            sides = (first[part], "query"), (second[part], "document")
            vectors = [encoder.embed(texts, on_batch=advance, side=side) for texts, side in sides]
            moments += PairMoments.from_pairs(*map(torch.from_numpy, vectors))
    total = reduce(operator.add, gather_object([moments]))
    shrinkage, dim = config.whitening.shrinkage, config.whitening.dim
    number = None if shrinkage == "ledoit-wolf" else shrinkage
    return lambda power: refusing(lambda: total.fit(_number(power), shrinkage=number, dim=dim))


def _by_texts(
    config: WhitenConfig, encoder: Encoder, texts: list[str], progress: Progress
) -> Callable[[Power], FittedMap]:
    """Encode this process's texts as documents, and return a function from a power to its map."""
    moments = Moments.from_vectors(torch.empty(0, encoder.dim))
    with progress.bar("fit", len(texts)) as advance:
        for start in range(0, len(texts), _CHUNK):
            part = texts[start : start + _CHUNK]
            vectors = encoder.embed(part, on_batch=advance, side="document")
            moments += Moments.from_vectors(torch.from_numpy(vectors))
    total = reduce(operator.add, gather_object([moments]))
    return lambda power: refusing(lambda: config.whitening.fit(total, _number(power)))


def _number(power: Power) -> float:
    """Return a power as a number; requires a whitening, not a flow or the unchanged model."""
    assert isinstance(power, float | int)
    return power


def _gathered(
    encoder: Encoder, texts: list[str], count: int, step: int, progress: Progress
) -> torch.Tensor:
    """Encode this process's texts as documents; return the vectors of all processes, (n, dim)."""
    with progress.bar("fit", len(texts)) as advance:
        parts = gather_object([encoder.embed(texts, on_batch=advance, side="document")])
    every = np.empty((count, encoder.dim), np.float32)
    for number, part in enumerate(parts):
        every[number::step] = part
    return torch.from_numpy(every)


def _flow(
    config: WhitenConfig, vectors: torch.Tensor, progress: Progress
) -> Callable[[Power], FittedMap]:
    """Return a function that fits a flow on vectors (n, dim); it ignores the power."""
    epochs, seed = config.whitening.epochs, config.whitening.seed

    def fit(_power: Power) -> FittedMap:
        with progress.bar("flow", epochs * len(vectors)) as advance:
            return refusing(lambda: fit_flow(vectors, epochs=epochs, seed=seed, on_batch=advance))

    return fit
