"""Selection of passages for requests: training passages, spread over documents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.corpus import Corpus
from isospace.corpus.relations import RELATIONS


@dataclass(frozen=True)
class Passages:
    """The passages of a corpus.

    Attributes:
        texts: n passages of all documents.
        trained: positions of the training passages.
        documents: (n,) number of each passage's document.
        above: (n,) title and heading of each passage, one per line; empty if it has none.
    """

    texts: tuple[str, ...]
    trained: NDArray[np.int64]
    documents: NDArray[np.int64]
    above: tuple[str, ...]

    @classmethod
    def of_corpus(cls, corpus: Corpus) -> Passages:
        """Return the passages of a corpus; a row or line without a document counts as one."""
        lines = corpus.passages
        documents, above = np.arange(len(lines)), [""] * len(lines)
        if corpus.related is not None:
            structure = corpus.related.structure
            documents = structure.documents[lines]
            for relation in ("title-passage", "heading-section"):
                pairs = RELATIONS[relation](structure)
                places = np.searchsorted(lines, pairs[:, 1]).tolist()
                for place, line in zip(places, pairs[:, 0].tolist(), strict=True):
                    above[place] += corpus[line] + "\n"
        texts = tuple(corpus[line] for line in lines.tolist())
        trained = np.flatnonzero(np.isin(lines, corpus.train_rows))
        return cls(texts, trained, documents, tuple(above))

    def shown(self, place: int) -> str:
        """Return a passage with its title and heading above it, for a request."""
        return f"{self.above[place]}\n{self.texts[place]}".strip()


def spread(documents: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """Select random passages; the documents take turns.

    Args:
        documents: (n,) number of each passage's document.
        count: number of passages to select; all if there are fewer.
        seed: seed of the draws.

    Returns:
        Positions of the selected passages (count,), in order of selection.
    """
    order = np.random.default_rng(seed).permutation(len(documents))
    given: Counter[int] = Counter()
    turns = []
    for document in documents[order].tolist():
        turns.append(given[document])
        given[document] += 1
    return order[np.argsort(turns, kind="stable")][:count]
