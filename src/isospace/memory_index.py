"""Exact nearest texts by cosine, in memory: for corpora whose vectors fit there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import torch

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
            scores, rows = self._best(vectors[start : start + _QUERIES], k)
            for pairs in zip(scores.tolist(), rows.tolist(), strict=True):
                hits = [Hit(row, score, self.texts[row]) for score, row in zip(*pairs, strict=True)]
                found.append([hit for hit in hits if hit.score >= threshold])
        return found[0] if isinstance(queries, str) else found

    def _best(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and rows of the k best, both (queries, k), best first."""
        scores: np.ndarray = np.empty((len(queries), 0), np.float32)
        rows: np.ndarray = np.empty((len(queries), 0), np.int64)
        for start in range(0, len(self.vectors), _CHUNK):
            new = torch.from_numpy(queries @ self.vectors[start : start + _CHUNK].T)
            best, places = new.topk(min(k, new.shape[1]))
            scores = np.hstack([scores, best.numpy()])
            rows = np.hstack([rows, places.numpy() + start])
            order = np.lexsort((rows, -scores))[:, :k]
            scores, rows = (np.take_along_axis(part, order, 1) for part in (scores, rows))
        return scores, rows
