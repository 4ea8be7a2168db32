"""How many of the nearest texts an approximate search finds."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from isospace.search.database import Database

_SAMPLE, _AT = 100, 10
"""Recall is measured on so many texts, at so many hits."""
_TOLERANCE = 1e-5
"""Of cosines in float32; equally near texts are equally good."""


def kth_cosines(queries: np.ndarray, vectors: Iterable[np.ndarray], k: int) -> np.ndarray:
    """The k-th highest cosine of each query that is itself among the vectors.

    Args:
        queries: (n, dim), of length 1.
        vectors: all of them in parts, (rows, dim) each, of length 1.
        k: which.

    Returns:
        (n,), not counting the query itself; -1 where there are fewer vectors.
    """
    best = np.full((len(queries), k + 1), -1.0, np.float32)  # one more: the query
    for part in vectors:
        cosines = np.hstack([best, queries @ part.T])
        best = np.partition(cosines, -(k + 1), axis=1)[:, -(k + 1) :]
    lowest: np.ndarray = best.min(axis=1)
    return lowest


def recall(found: Iterable[Iterable[float]], kth: np.ndarray, k: int) -> float:
    """Share of the k nearest that was found, mean over queries.

    Args:
        found: for each query, the cosines of at most k texts that were found.
        kth: (n,) from `kth_cosines`.
        k: how many were asked for.
    """
    shares = [
        sum(cosine >= floor - _TOLERANCE for cosine in cosines) / k
        for cosines, floor in zip(found, kth.tolist(), strict=True)
    ]
    return float(np.mean(shares))


def measure_recall(database: Database, rows: int) -> tuple[float, int]:
    """Ask the approximate index for texts that are in it, and compare with all vectors.

    Args:
        database: with an approximate index.
        rows: how many it has; the queries are spread evenly over them.

    Returns:
        Recall at 10, the query itself left out; and how many queries there were.
    """
    places = np.unique(np.linspace(0, rows - 1, _SAMPLE, dtype=np.int64)).tolist()
    ids, queries = database.sample(places)
    kth = kth_cosines(queries, database.vectors(), _AT)
    found = []
    for key, query in zip(ids, queries, strict=True):
        hits = database.nearest(query, _AT + 1, None, approximate=True)
        found.append([hit.cosine for hit in hits if hit.id != key][:_AT])
    return recall(found, kth, _AT), len(ids)
