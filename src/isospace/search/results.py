"""What searching finds and what adding changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isospace.search.columns import Value

_RANK = 60
"""k of reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""


@dataclass(frozen=True)
class Hit:
    """A text that was found.

    Attributes:
        id: its id.
        cosine: with the query.
        text: itself.
        metadata: its other columns.
    """

    id: str
    cosine: float
    text: str
    metadata: dict[str, Value]


@dataclass(frozen=True)
class Changes:
    """What adding rows did.

    Attributes:
        added: new ids.
        replaced: ids that had another text or other metadata.
        unchanged: ids that were there with the same, and were not encoded again.
        empty: rows without a text, which are left out.
        deleted: ids that were there, and now have no text or are no longer in their file.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    empty: int = 0
    deleted: int = 0

    def __add__(self, other: Changes) -> Changes:
        return Changes(
            self.added + other.added,
            self.replaced + other.replaced,
            self.unchanged + other.unchanged,
            self.empty + other.empty,
            self.deleted + other.deleted,
        )


@dataclass(frozen=True)
class Results:
    """What was found.

    Attributes:
        hits: for each query, the best first.
        protocol: how, in words.
    """

    hits: list[list[Hit]]
    protocol: str


def fuse(*lists: Sequence[Hit]) -> list[Hit]:
    """Hits by the sum of their reciprocal ranks, of equal ones the higher cosine first."""
    scores: dict[str, float] = {}
    for hits in lists:
        for rank, hit in enumerate(hits, 1):
            scores[hit.id] = scores.get(hit.id, 0.0) + 1 / (_RANK + rank)
    every = {hit.id: hit for hits in lists for hit in hits}.values()
    return sorted(every, key=lambda hit: (-scores[hit.id], -hit.cosine))
