r"""Ranked lists against graded judgements: nDCG@10, MRR@10 and recall, for each query.

- nDCG@10 (Järvelin & Kekäläinen 2002): the sum of grade / log2(1 + rank) over the first ten,
  divided by this sum for the best order of the judged documents. The gain is the grade, as in
  trec_eval.
- MRR@10: 1 / rank of the first relevant document, 0 below the tenth.
- R@k: the share of the relevant documents that are among the first k.

A document is relevant if its grade is above 0; documents without a judgement have grade 0. A judged
query without a relevant document has 0 in every measure, as in trec_eval and ir-measures. A query
without any judgement is left out. A judged document that is not in the corpus is never found. It
still counts as relevant and in the best order, as in trec_eval.

Documents that tie (within `nearest.TIE`) are in random order, and each measure is its mean over
these orders (McSherry & Najork 2008, ECIR, "Computing Information Retrieval Performance Measures
Efficiently in the Presence of Tied Scores"). So an encoder with one vector for all texts gets the
score of chance, and the order of the files does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.operators.nearest import TIE
from isospace.statistics.influence import FloatArray

MEASURES = ("nDCG@10", "MRR@10", "R@1", "R@10", "R@100")
"""Measures in the order of tables; the first decides the verdict."""

_DEPTH = 10  # depth of nDCG and MRR
_RECALLS = {"R@1": 1, "R@10": 10, "R@100": 100}
_DEEPEST = 100
_DISCOUNTS = 1 / np.log2(np.arange(2, _DEPTH + 2))
# What the first n places give together, n = 0 to 10.
_DISCOUNTED = np.concatenate([[0.0], np.cumsum(_DISCOUNTS)])


@dataclass(frozen=True)
class JudgedQueries:
    """Queries, the documents that are ranked for each of them, and graded judgements.

    Attributes:
        judgements: for each query: position of a document -> grade. Positions behind the last
            document refer to missing documents, which are never found.
        ignored: for each query the position of a document that is not ranked, or -1; empty if no
            query has such a document.
        notes: remarks on the data, for the protocol.
    """

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    judgements: tuple[Mapping[int, float], ...]
    ignored: tuple[int, ...] = ()
    file: str = ""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.queries)


def measure_ranking(
    blocks: Iterable[tuple[int, NDArray[Any]]], judgements: Sequence[Mapping[int, float]]
) -> dict[str, FloatArray]:
    """Return every measure of each query, `(query,)`, 0 to 1.

    `blocks` are the row of a block's first query, and scores (query, document), as
    `nearest.product_blocks` yields them. Documents with -inf are not ranked. `judgements` are as in
    `JudgedQueries`.

    >>> scores = np.array([[0.9, 0.5, 0.1]])
    >>> found = measure_ranking([(0, scores)], [{1: 1.0}])
    >>> found["MRR@10"], found["R@1"], found["nDCG@10"].round(4)
    (array([0.5]), array([0.]), array([0.6309]))
    """
    values = {name: np.zeros(len(judgements)) for name in MEASURES}
    for start, block in blocks:
        for query, scores in enumerate(block, start):
            for name, value in _measure(scores, judgements[query]).items():
                values[name][query] = value
    return values


def _measure(scores: NDArray[Any], grades: Mapping[int, float]) -> dict[str, float]:
    """Measure one query: scores (document,)."""
    relevant = {place: grade for place, grade in grades.items() if grade > 0}
    if not relevant:
        return {}
    gains = np.array(list(relevant.values()))
    own = np.array([scores[place] if place < len(scores) else -np.inf for place in relevant])
    better, tied = _places(scores, own)
    last = better + tied  # the places after `better`, up to this one, are shared

    def within(k: int) -> FloatArray:
        return np.asarray((np.minimum(last, k) - np.minimum(better, k)) / tied)

    discounts = _DISCOUNTED[np.minimum(last, _DEPTH)] - _DISCOUNTED[np.minimum(better, _DEPTH)]
    ideal = np.sort(gains)[::-1][:_DEPTH] @ _DISCOUNTS[: len(gains)]
    first = int(np.argmax(own))
    as_good = int((own >= own[first] - TIE).sum())
    recalls = {name: float(within(k).mean()) for name, k in _RECALLS.items()}
    return {
        "nDCG@10": float(gains @ (discounts / tied) / ideal),
        "MRR@10": _first_reciprocal(int(better[first]), int(tied[first]), as_good),
    } | recalls


def _places(scores: NDArray[Any], own: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count for each score in `own` the better documents, and the tied ones including itself.

    Counts of better documents are exact up to `_DEEPEST`, as no measure looks at lower ranks. A
    score of -inf (not ranked) has at least `_DEEPEST` better documents.
    """
    near = scores
    if len(scores) > _DEEPEST:
        # Include what ties with the last place that counts, and what ties with such a document.
        near = scores[scores >= np.partition(scores, -_DEEPEST)[-_DEEPEST] - 2 * TIE]
    ascending = np.sort(near)
    worse_or_tied = np.searchsorted(ascending, own + TIE, side="right")
    worse = np.searchsorted(ascending, own - TIE, side="left")
    better = np.where(own > -np.inf, len(near) - worse_or_tied, _DEEPEST)
    return better, np.maximum(1, worse_or_tied - worse)


def _first_reciprocal(better: int, tied: int, relevant: int) -> float:
    """Return the mean of 1 / rank of the first relevant document among those that tie."""
    total, chance = 0.0, relevant / tied  # probability of this place in the tie
    for place in islice(range(tied - relevant + 1), max(0, _DEPTH - better)):
        total += chance / (better + place + 1)
        chance *= (tied - place - relevant) / max(1, tied - place - 1)
    return total
