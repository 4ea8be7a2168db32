r"""Cosines and BM25 as one score, so that shared words and meaning both find a text.

$$ s(q, d) = \cos(q, d) + w \, \sigma_q \, \mathrm{BM25}(q, d) / \max_{d'} \mathrm{BM25}(q, d') $$

$\sigma_q$ is the standard deviation of the query's cosines over the candidates: encoders differ
tenfold in how far their cosines spread, and so the weight $w$ serves all of them. It says by how
many standard deviations the best match of words is lifted.

BM25 has no upper bound and grows with the query. Divided by the highest of the query it lies
between 0, no word shared, and 1 (that the minimum is known: Bruch, Gai & Ingber 2023, ACM TOIS 42,
"An Analysis of Fusion Functions for Hybrid Retrieval"). A standard deviation of BM25 in its place
would depend on how many texts share no word with the query, and a list of hits does not tell it;
ranks lose how far apart the scores are. `docs/results/fusion.md` compares them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WEIGHT = 2.0
"""Of BM25, where none is given: the middle of a plateau (`benchmarks/fusion.py`)."""


def fuse(
    cosines: NDArray[Any],
    words: NDArray[Any],
    weight: float = WEIGHT,
    spread: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return the fused score of each query and text, in units of the cosine.

    Args:
        cosines: (query, text).
        words: (query, text) BM25, 0 or more; each query's highest is among them.
        weight: of BM25; 0 leaves the cosines.
        spread: (query,) standard deviation of the query's cosines over all candidates, where the
            texts are only some of them; default: over the texts.

    >>> fuse(np.array([[0.5, 0.3]]), np.array([[0.0, 7.0]]), 2.0).round(9)
    array([[0.5, 0.5]])
    """
    sigma = cosines.std(axis=1) if spread is None else spread
    highest = words.max(axis=1)
    scale = weight * sigma / np.where(highest > 0, highest, 1)
    fused: NDArray[Any] = cosines + scale[:, None] * words
    return fused
