"""Selection of passages for requests: training passages, spread over documents and topics."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from isospace.corpus.corpus import Corpus
from isospace.corpus.relations import RELATIONS

CLUSTERS = 100
"""Largest number of clusters of passages."""


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


def spread(
    vectors: NDArray[Any], documents: NDArray[np.int64], count: int, seed: int
) -> NDArray[np.int64]:
    """Select passages that are spread over topics and documents.

    The topics are clusters of the vectors by k-means. They take turns: each topic gives a random
    passage from one of its documents with the fewest selected passages so far.

    Args:
        vectors: (n, dim) unit vectors of the passages.
        documents: (n,) number of each passage's document.
        count: number of passages to select; all if there are fewer.
        seed: seed of k-means and of the draws.

    Returns:
        Positions of the selected passages (count,), in order of selection.
    """
    count = min(count, len(vectors))
    clusters = min(CLUSTERS, count)
    means = MiniBatchKMeans(clusters, random_state=seed, n_init=3)
    order = np.random.default_rng(seed).permutation(len(vectors))
    with warnings.catch_warnings():  # fewer distinct vectors than clusters
        warnings.simplefilter("ignore", ConvergenceWarning)
        topics = means.fit_predict(vectors)[order]
    waiting = [order[topics == topic] for topic in range(clusters)]
    given = np.zeros(int(documents.max()) + 1, dtype=np.int64)
    chosen: list[int] = []
    while len(chosen) < count:
        for topic, places in enumerate(waiting):
            if len(places) and len(chosen) < count:
                first = int(np.argmin(given[documents[places]]))
                chosen.append(int(places[first]))
                given[documents[places[first]]] += 1
                waiting[topic] = np.delete(places, first)
    return np.array(chosen, dtype=np.int64)
