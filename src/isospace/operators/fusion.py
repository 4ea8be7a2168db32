r"""Hybrid score: cosine plus weighted BM25, so that shared words and meaning both find a text.

$$ s(q, d) = \cos(q, d) + w \, \sigma_q \, \mathrm{BM25}(q, d) / \max_{d'} \mathrm{BM25}(q, d') $$

$\sigma_q$ is the standard deviation of the query's cosines over the candidates. The spread of
cosines differs tenfold between encoders; with $\sigma_q$ one weight $w$ serves all of them. The
weight is the number of standard deviations that the best BM25 match gains.

BM25 has no upper bound and grows with the query. Divided by the query's highest value it is between
0 (no shared word) and 1. Source for the known minimum: Bruch, Gai & Ingber 2023, ACM TOIS 42, "An
Analysis of Fusion Functions for Hybrid Retrieval".

`docs/results/fusion.md` compares this fusion with two alternatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WEIGHT = 2.0
"""Default weight of BM25: the middle of a plateau (`benchmarks/fusion.py`)."""


def fuse(
    cosines: NDArray[Any],
    words: NDArray[Any],
    weight: float = WEIGHT,
    spread: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return the hybrid score (query, text), in units of the cosine; weight 0 returns the cosines.

    Args:
        cosines: (query, text).
        words: (query, text) BM25 scores, 0 or more; they must include each query's highest score.
        weight: of BM25.
        spread: (query,) standard deviation of the cosines over all candidates, needed if the texts
            are only some of them; default: over the texts.

    >>> fuse(np.array([[0.5, 0.3]]), np.array([[0.0, 7.0]]), 2.0).round(9)
    array([[0.5, 0.5]])
    """
    sigma = cosines.std(axis=1) if spread is None else spread
    highest = words.max(axis=1)
    scale = weight * sigma / np.where(highest > 0, highest, 1)
    return cosines + scale[:, None] * words
