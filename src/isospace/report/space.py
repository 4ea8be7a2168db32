"""Space of a run's sample before and after: singular values, map, nearest neighbours."""

from __future__ import annotations

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


Neighbours = list[tuple[str, float, bool]]
"""The sentences of the sample nearest to a text, the nearest first: sentence, cosine, and true if
the list of the other space has the sentence too."""


def most_changed(
    sample: Sample, shares: NDArray[np.float64], count: int
) -> list[tuple[str, Neighbours, Neighbours]]:
    """Return the sentences that kept the fewest neighbours, with those before and after.

    `shares` is the result of `kept_shares`; among equal shares the first sentences are used.
    """
    rows = np.argsort(shares, kind="stable")[:count]
    before, after = (
        [
            {sample.sentences[place]: float(cosine) for place, cosine in zip(*near, strict=True)}
            for near in nearest(unit_rows(space[rows]), unit_rows(space), LISTED, rows)
        ]
        for space in (sample.before, sample.after)
    )

    def marked(near: dict[str, float], other: dict[str, float]) -> Neighbours:
        return [(sentence, cosine, sentence in other) for sentence, cosine in near.items()]

    return [
        (sample.sentences[row], marked(near, other), marked(other, near))
        for row, near, other in zip(rows, before, after, strict=True)
    ]
