"""Exact nearest texts by cosine, in memory: for corpora whose vectors fit there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

_CHUNK = 1 << 16
"""Texts that are compared with the queries at once."""
_QUERIES = 256


class Hit(NamedTuple):
    """A text that was found.

    Attributes:
        row: its place in the corpus.
        score: cosine with the query.
        text: itself.
    """

    row: int
    score: float
    text: str


class Index:
    """Texts with their vectors.

    Args:
        texts: n of them.
        vectors: (n, dim), of length 1.
        encode: queries (texts or vectors) to (queries, dim) vectors of length 1.
    """

    def __init__(
        self, texts: Sequence[str], vectors: np.ndarray, encode: Callable[[Any], np.ndarray]
    ) -> None:
        self.texts = texts
        self.vectors = vectors
        self._encode = encode

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def search(self, queries: str, k: int = ..., threshold: float = ...) -> list[Hit]: ...

    @overload
    def search(
        self,
        queries: list[str] | tuple[str, ...] | np.ndarray,
        k: int = ...,
        threshold: float = ...,
    ) -> list[list[Hit]]: ...

    def search(
        self, queries: str | Sequence[str] | np.ndarray, k: int = 5, threshold: float = -1.0
    ) -> list[Hit] | list[list[Hit]]:
        """The texts nearest to each query.

        Args:
            queries: one text, several, or their (queries, dim) vectors.
            k: hits for each, fewer where the corpus or the threshold gives fewer.
            threshold: only hits with at least this cosine.

        Returns:
            A list of `Hit`, best first, for one text; a list of such lists for several.

        Raises:
            ValueError: k below 1.
        """
        if k < 1:
            raise ValueError(f"k = {k}, expected 1 or more")
        vectors = np.atleast_2d(self._encode(queries))
        found: list[list[Hit]] = []
        for start in range(0, len(vectors), _QUERIES):
            chunks = (self.vectors[i : i + _CHUNK] for i in range(0, len(self), _CHUNK))
            for scores, rows in best_rows(vectors[start : start + _QUERIES], chunks, k):
                pairs = zip(rows.tolist(), scores.tolist(), strict=True)
                hits = [Hit(row, score, self.texts[row]) for row, score in pairs]
                found.append([hit for hit in hits if hit.score >= threshold])
        return found[0] if isinstance(queries, str) else found


def best_rows(
    queries: np.ndarray, chunks: Iterable[np.ndarray], k: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The k rows with the highest inner product with each query.

    Args:
        queries: (n, dim).
        chunks: the rows, some at a time, each (some, dim).
        k: how many; fewer where there are fewer rows.

    Returns:
        For each query the products and the numbers of its rows, as `best_places` orders them.
    """
    best = [(np.empty(0, np.float32), np.empty(0, np.int64))] * len(queries)
    start = 0
    for vectors in chunks:
        for i, products in enumerate(queries @ vectors.T):
            places = best_places(products, k)
            scores = np.concatenate([best[i][0], products[places]])
            rows = np.concatenate([best[i][1], start + places])
            kept = best_places(scores, k)
            best[i] = scores[kept], rows[kept]
        start += len(vectors)
    return best


def best_places(scores: np.ndarray, k: int) -> np.ndarray:
    """Where the k highest of the scores (n,) are, the highest first; of equal ones the first.

    >>> best_places(np.array([0.1, 0.7, 0.7, 0.3]), 3)
    array([1, 2, 3])
    """
    costs = -scores
    if k < len(costs):
        near = np.flatnonzero(costs <= np.partition(costs, k - 1)[k - 1])
    else:
        near = np.arange(len(costs))
    return near[np.argsort(costs[near], kind="stable")[:k]]
