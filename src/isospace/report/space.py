"""Space of a run's sample before and after: singular values, map, nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from isospace.evaluation.geometry import NEIGHBOURS, common_neighbours
from isospace.operators.nearest import nearest, unit_rows
from isospace.training.run import Sample

SMALLEST_SAMPLE = 12
"""Smallest number of sentences with ten neighbours each."""
LISTED = 5
"""Number of neighbours in a list."""

_PERPLEXITY = 20  # about the number of neighbours that the map keeps near
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

    The second map starts from the first, so that sentences with the same neighbours stay in place.

    `before` and `after` are (sentence, dim) of the same sentences.
    """
    first = _layout(before, "pca")
    if np.array_equal(before, after):
        return first, first
    spread = first[:, 0].std()
    # The scale is that of scikit-learn for an initial layout: small, so that early steps can move.
    return first, _layout(after, 1e-4 * first / spread if spread > 0 else "pca")


def _layout(vectors: Vectors, start: Vectors | str) -> Vectors:
    if not np.ptp(vectors, axis=0).any():  # t-SNE fails on a collapsed space
        return np.zeros((len(vectors), 2), dtype=np.float32)
    perplexity = min(_PERPLEXITY, len(vectors) / 3)
    tsne = TSNE(perplexity=perplexity, init=start, metric="cosine", random_state=_SEED)
    return np.asarray(tsne.fit_transform(vectors), dtype=np.float32)


def kept_shares(sample: Sample) -> NDArray[np.float64]:
    """Return the share of its ten nearest neighbours that each sentence keeps, (sentence,)."""
    return common_neighbours(sample.before, sample.after, NEIGHBOURS) / NEIGHBOURS


@dataclass(frozen=True)
class SampleNeighbour:
    """A sentence of the sample that is near a text."""

    sentence: str
    cosine: float
    shared: bool


@dataclass(frozen=True)
class NeighboursBeforeAfter:
    """The nearest sentences of the sample to a text, before and after, the nearest first."""

    text: str
    before: tuple[SampleNeighbour, ...]
    after: tuple[SampleNeighbour, ...]


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
    """Return the neighbours of the sentences that kept the fewest neighbours.

    `shares` is the result of `kept_shares`; among equal shares the first sentences are used.
    """
    rows = np.argsort(shares, kind="stable")[:count]
    first, second = (
        _lists(space[rows], space, rows, sample.sentences)
        for space in (sample.before, sample.after)
    )
    return [
        NeighboursBeforeAfter(sample.sentences[row], _marked(near, other), _marked(other, near))
        for row, near, other in zip(rows, first, second, strict=True)
    ]
