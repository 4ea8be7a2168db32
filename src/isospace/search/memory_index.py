"""Exact nearest texts by cosine, in memory: for corpora whose vectors fit there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from isospace.errors import UserError
from isospace.operators.nearest import nearest


def require_k(k: int) -> None:
    """Refuse a number of hits that is no whole number from 1 on.

    Raises:
        UserError: naming it.
    """
    if not isinstance(k, int | np.integer) or k < 1:
        raise UserError(f"`k` {k}: expected a whole number, 1 or more")


class MemoryHit(NamedTuple):
    """A text that was found, its row in the corpus, and its cosine with the query as the score."""

    row: int
    score: float
    text: str


class MemoryIndex:
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
    def search(self, queries: str, k: int = ..., threshold: float = ...) -> list[MemoryHit]: ...

    @overload
    def search(
        self,
        queries: list[str] | tuple[str, ...] | np.ndarray,
        k: int = ...,
        threshold: float = ...,
    ) -> list[list[MemoryHit]]: ...

    def search(
        self, queries: str | Sequence[str] | np.ndarray, k: int = 5, threshold: float = -math.inf
    ) -> list[MemoryHit] | list[list[MemoryHit]]:
        """The texts nearest to each query.

        Args:
            queries: one text, several, or their (queries, dim) vectors.
            k: hits for each, fewer where the corpus or the threshold gives fewer.
            threshold: only hits with at least this cosine; default: all.

        Returns:
            A list of `MemoryHit`, best first, for one text; a list of such lists for several.

        Raises:
            UserError: k below 1 or no whole number.
        """
        require_k(k)
        vectors = np.atleast_2d(self._encode(queries))
        lists = []
        for near in nearest(vectors, self.vectors, k):
            pairs = zip(near.rows.tolist(), near.products.tolist(), strict=True)
            hits = [MemoryHit(row, score, self.texts[row]) for row, score in pairs]
            lists.append([hit for hit in hits if hit.score >= threshold])
        return lists[0] if isinstance(queries, str) else lists
