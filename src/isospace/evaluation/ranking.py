r"""Ranked lists against graded judgements: nDCG@10, MRR@10 and recall, for each query.

- nDCG@10 (Järvelin & Kekäläinen 2002): the sum of grade / log2(1 + rank) over the first ten, by
  that of the best order of the judged documents. The gain is the grade itself, as trec_eval has it.
- MRR@10: 1 / rank of the first relevant document, 0 below the tenth.
- R@k: the share of the relevant documents that are among the first k.

A document is relevant where its grade is above 0; what nobody judged has grade 0. A judged query
without a relevant document counts, as in trec_eval and ir-measures, with 0 in every measure; a
query without any judgement is not asked. A judged document that the corpus lacks is never found,
and stays in the ideal order and among the relevant ones, as in trec_eval.

Documents that tie (within `nearest.TIE`) stand in a random order, and each measure is its mean over
these orders (McSherry & Najork 2008, ECIR, "Computing Information Retrieval Performance Measures
Efficiently in the Presence of Tied Scores"). So an encoder to which all texts are the same gets
what chance gets, whatever order the files have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.operators.nearest import TIE
from isospace.statistics.correlation import FloatArray

MEASURES = ("nDCG@10", "MRR@10", "R@1", "R@10", "R@100")
"""In the order of tables; the first is the one that differences are judged by."""

_DEPTH = 10  # of nDCG and MRR
_RECALLS = {"R@1": 1, "R@10": 10, "R@100": 100}
_DEEPEST = 100
_DISCOUNTS = 1 / np.log2(np.arange(2, _DEPTH + 2))
# What the first n places give together, n = 0 to 10.
_DISCOUNTED = np.concatenate([[0.0], np.cumsum(_DISCOUNTS)])


@dataclass(frozen=True)
class JudgedQueries:
    """Queries, the documents that are ranked for each of them, and graded judgements.

    Attributes:
        queries: n of them.
        documents: m of them, all of which are candidates of every query.
        judgements: for each query the positions of documents -> grade; relevant above 0. Positions
            from m on are of documents that are missing, and so are never found.
        ignored: for each query the position of a document that is not ranked for it, or -1; empty
            where there is none.
        file: the file that has the judgements.
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

    Args:
        blocks: the row of the first query of a block, and the block's scores (queries of it,
            document), as `nearest.product_blocks` gives them; -inf: the document is not ranked.
        judgements: for each query the positions of documents -> grade; positions without a score
            are of documents that are missing.

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
        share: FloatArray = (np.minimum(last, k) - np.minimum(better, k)) / tied
        return share

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
    """Count the documents above those of score `own`, and those that tie, itself included.

    Where more than `_DEEPEST` are better only that is known: no measure looks further down. A
    document at -inf is not ranked, and stands below all that count.
    """
    near = scores
    if len(scores) > _DEEPEST:
        # Whatever ties with the last place that counts, and what ties with that.
        near = scores[scores >= np.partition(scores, -_DEEPEST)[-_DEEPEST] - 2 * TIE]
    ascending = np.sort(near)
    worse_or_tied = np.searchsorted(ascending, own + TIE, side="right")
    worse = np.searchsorted(ascending, own - TIE, side="left")
    better = np.where(own > -np.inf, len(near) - worse_or_tied, _DEEPEST)
    return better, np.maximum(1, worse_or_tied - worse)


def _first_reciprocal(better: int, tied: int, relevant: int) -> float:
    """Return the mean of 1 / rank of the first relevant document among those that tie."""
    total, chance = 0.0, relevant / tied  # that it stands at this place of the tie
    for place in islice(range(tied - relevant + 1), max(0, _DEPTH - better)):
        total += chance / (better + place + 1)
        chance *= (tied - place - relevant) / max(1, tied - place - 1)
    return total
