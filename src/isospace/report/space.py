"""The space of a run's sample, before and after: singular values, a map, nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.evaluation.geometry import common_neighbours
from isospace.evaluation.isotropy import NEIGHBOURS
from isospace.operators.nearest import nearest, unit_rows
from isospace.system.run_folder import ADAPT_SETTINGS
from isospace.training import checkpoint
from isospace.training.build import build_parts
from isospace.training.prepare import start_of
from isospace.training.run import Run, Sample

SMALLEST_SAMPLE = 12
"""Fewer sentences have no ten neighbours."""
LISTED = 5
"""Neighbours in a list."""

_PERPLEXITY = 20  # of the map: how many neighbours a sentence keeps near
_SEED = 0

Vectors = NDArray[np.float32]


def spectrum(vectors: Vectors) -> NDArray[np.float64]:
    """Return the singular values of the centred vectors as shares of their sum, largest first.

    The entropy of these shares is the logarithm of the effective rank (Roy & Vetterli 2007).

    `vectors` are (sentence, dim).
    """
    values = vectors.astype(np.float64)
    singular = np.linalg.svd(values - values.mean(0), compute_uv=False)
    return np.asarray(singular / max(singular.sum(), np.finfo(np.float64).tiny))


def layouts(before: Vectors, after: Vectors) -> tuple[Vectors, Vectors]:
    """Map both spaces to two dimensions by t-SNE on cosines; equal vectors give equal maps.

    The second map starts from the first, so that a sentence stays where it is as far as its
    neighbours let it.

    `before` and `after` are (sentence, dim) of the same sentences.

    Returns:
        Two arrays (sentence, 2).
    """
    first = _layout(before, "pca")
    if np.array_equal(before, after):
        return first, first
    spread = first[:, 0].std()
    # scikit-learn's own scale of an initial layout: small, so that the early steps can order it.
    return first, _layout(after, 1e-4 * first / spread if spread > 0 else "pca")


def _layout(vectors: Vectors, start: Vectors | str) -> Vectors:
    if not np.ptp(vectors, axis=0).any():  # t-SNE dies of a collapsed space
        return np.zeros((len(vectors), 2), dtype=np.float32)
    perplexity = min(_PERPLEXITY, len(vectors) / 3)
    tsne = TSNE(perplexity=perplexity, init=start, metric="cosine", random_state=_SEED)
    return np.asarray(tsne.fit_transform(vectors), dtype=np.float32)


def kept_shares(sample: Sample) -> NDArray[np.float64]:
    """Return the share of each sentence's ten nearest neighbours that it keeps, (sentence,)."""
    return common_neighbours(sample.before, sample.after, NEIGHBOURS) / NEIGHBOURS


@dataclass(frozen=True)
class SampleNeighbour:
    """A sentence of the sample that is near a text.

    Attributes:
        sentence: itself.
        cosine: with the text.
        shared: it is in the list of the other space too.
    """

    sentence: str
    cosine: float
    shared: bool


@dataclass(frozen=True)
class NeighboursBeforeAfter:
    """The sentences of the sample nearest to one text, the nearest first.

    Attributes:
        text: whose neighbours they are.
        before: under the base model.
        after: under the result.
    """

    text: str
    before: tuple[SampleNeighbour, ...]
    after: tuple[SampleNeighbour, ...]


def neighbours_of(
    texts: Sequence[str], before: Vectors, after: Vectors, sample: Sample
) -> list[NeighboursBeforeAfter]:
    """Return the nearest sentences of a sample to each text, without the text itself.

    `before` and `after` are the vectors of the n texts, (n, dim), under start and result.
    """
    rows = {sentence: row for row, sentence in enumerate(sample.sentences)}
    own = np.array([rows.get(text, -1) for text in texts])
    first, second = (
        _lists(vectors, space, own, sample.sentences)
        for vectors, space in ((before, sample.before), (after, sample.after))
    )
    return [
        NeighboursBeforeAfter(text, _marked(near, other), _marked(other, near))
        for text, near, other in zip(texts, first, second, strict=True)
    ]


def _lists(
    vectors: Vectors, space: Vectors, own: NDArray[np.int64], sentences: Sequence[str]
) -> list[dict[str, float]]:
    """Return each vector's nearest sentences with their cosines, without the row `own`."""
    return [
        {sentences[row]: float(cosine) for row, cosine in zip(*near, strict=True)}
        for near in nearest(unit_rows(vectors), unit_rows(space), LISTED, own)
    ]


def _marked(near: dict[str, float], other: dict[str, float]) -> tuple[SampleNeighbour, ...]:
    return tuple(
        SampleNeighbour(sentence, cosine, sentence in other) for sentence, cosine in near.items()
    )


def most_changed(
    sample: Sample, shares: NDArray[np.float64], count: int
) -> list[NeighboursBeforeAfter]:
    """Return the neighbours of the sentences that kept the fewest of theirs.

    `shares` are what `kept_shares` says; among equals the first in the sample are taken.
    """
    rows = np.argsort(shares, kind="stable")[:count]
    texts = [sample.sentences[row] for row in rows]
    return neighbours_of(texts, sample.before[rows], sample.after[rows], sample)


def query_neighbours(
    run: Run, sample: Sample, queries: Sequence[str]
) -> list[NeighboursBeforeAfter]:
    """Load the encoders, and return the nearest sentences of a run's sample to the queries.

    Raises:
        UserError: the encoder that the run started from, or its result's weights, are gone.
    """
    is_adapt = (run.folder / ADAPT_SETTINGS).is_file()
    if not (is_adapt or run.kept_weights.is_file()):
        raise UserError(f"`query`: {run.kept_weights} is gone; it holds the result's weights")
    config, results = run.config, run.finished
    encoder = start_of(config)
    before = after = encoder.embed(queries, side="query")
    if is_adapt and not results.ships_base:  # what was taken is no checkpoint
        after = load_encoder(str(run.model_folder)).embed(queries, side="query")
    elif is_adapt and not np.array_equal(sample.before, sample.after):
        raise UserError(
            f"`query`: {run.folder} kept the base model, and its best candidate is not there"
        )
    elif not is_adapt and results.choice.step:
        shipped = build_parts(config, encoder).shipped
        checkpoint.put_weights(run.kept_weights, shipped.model)
        after = shipped.embed(queries, side="query")
    return neighbours_of(queries, before, after, sample)
