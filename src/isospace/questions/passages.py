"""Passages for requests, spread over documents, and filters of the queries written for them.

The filters drop repetitions, copies, and queries that miss their passage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.corpus import Corpus
from isospace.corpus.dedup import near_duplicates
from isospace.corpus.relations import RELATIONS
from isospace.evaluation.bm25 import bm25_terms
from isospace.evaluation.hybrid import rank_baselines
from isospace.evaluation.pairs import Candidates, Encode, TextPairs

DEPTH = 20
"""Largest rank at which a query may find its passage."""
MAX_SHARED = 0.8
"""Largest share of a query's words that may occur in its passage; more make it a copy."""


@dataclass(frozen=True)
class Passages:
    """The n passages of a corpus.

    Attributes:
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
    """Return the positions (count,) of random passages; the documents take turns.

    `documents` (n,) has the number of each passage's document. All passages are returned if there
    are fewer than `count`.
    """
    order = np.random.default_rng(seed).permutation(len(documents))
    given: Counter[int] = Counter()
    turns = []
    for document in documents[order].tolist():
        turns.append(given[document])
        given[document] += 1
    return order[np.argsort(turns, kind="stable")][:count]


@dataclass(frozen=True)
class Generated:
    """A generated query, of one word or more."""

    query: str
    passage: str
    type: str


def shared_words(query: str, passage: str) -> float:
    """Return the share of a query's distinct words that occur in the passage, 0 to 1.

    Words are those of BM25: in scripts without spaces, pairs of neighbouring characters.

    >>> shared_words("reset the device", "Hold the button to reset it.")
    0.6666666666666666
    """
    words = set(bm25_terms(query))
    return len(words.intersection(bm25_terms(passage))) / len(words)


def filter_queries(
    written: Sequence[Generated],
    examples: Sequence[str],
    passages: Sequence[str],
    encode: Encode,
) -> tuple[list[Generated], dict[str, int]]:
    """Drop repetitions, then copies, then queries that do not find their passage.

    Args:
        written: the generated queries.
        examples: queries of real users, which the language model may have repeated.
        passages: all passages of the corpus, which are ranked for each query.
        encode: the base model, for hybrid search with BM25.

    Returns:
        The queries that are kept, and the number that each filter dropped.
    """
    texts = [*examples, *(one.query for one in written)]
    repeats = near_duplicates(texts, np.arange(len(texts)), len(examples))[len(examples) :]
    distinct = [one for one, earlier in zip(written, repeats.tolist(), strict=True) if earlier < 0]
    own_words = [one for one in distinct if shared_words(one.query, one.passage) <= MAX_SHARED]
    kept = _finding(own_words, passages, encode)
    return kept, {
        "near duplicates": len(written) - len(distinct),
        "copies": len(distinct) - len(own_words),
        "not found": len(own_words) - len(kept),
    }


def _finding(
    queries: Sequence[Generated], passages: Sequence[str], encode: Encode
) -> list[Generated]:
    """Return the queries that rank their passage among the first `DEPTH` in hybrid search."""
    if not queries:
        return []
    first, second = zip(*((one.query, one.passage) for one in queries), strict=True)
    among = Candidates(tuple(passages), (None,) * len(passages), {}, "all passages")
    _, hybrid = rank_baselines(encode, TextPairs("generated", first, second, among=among))
    return [one for one, rank in zip(queries, hybrid.ranks, strict=True) if rank <= DEPTH]
