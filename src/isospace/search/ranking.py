"""Hybrid ranking by cosine and BM25, and the recall of the approximate index."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isospace.operators.fusion import fuse
from isospace.operators.nearest import highest, nearest
from isospace.search.database import Database, Hit
from isospace.system.unicode import without_surrogates

_DEPTH = 100
"""Number of candidates by cosine, and of candidates by BM25, for fusion."""
SPREAD_SAMPLE = 1000
"""Number of texts from which fusion estimates the spread of a query's cosines."""

RECALL_QUERIES, RECALL_AT = 100, 10
"""Recall is measured with this number of queries, at this number of hits."""
_ROUNDING = 1e-5
"""Rounding error of float32 cosines; texts within it count as equally near."""


def nearest_by_both(
    database: Database,
    query: str,
    vector: np.ndarray,
    k: int,
    where: str | None,
    approximate: bool,
    weight: float,
    sample: np.ndarray,
) -> list[Hit]:
    """Return the k best rows by cosine and BM25 together (`fusion.fuse`).

    The candidates are the 100 nearest by cosine and the 100 best by BM25. LanceDB's own hybrid
    query is unsuitable. It scales both scores by the candidates only, and gives BM25 0 to a near
    row that is not among the best by BM25.

    The query's `vector` (dim,) has length 1. `sample` has (n, dim) vectors of some rows, for the
    spread of the query's cosines.
    """
    query, depth = without_surrogates(query), max(k, _DEPTH)
    near = database.nearest(vector, depth, where, approximate)
    matching = database.matching(query, vector, depth, where)
    spread = float(np.std(sample @ vector))
    if not near:
        return []
    words = {hit.id: score for hit, score in matching}
    if words:
        others = [hit.id for hit in near if hit.id not in words]
        words |= database.word_scores(query, others)
    hits = list({hit.id: hit for hit in (*near, *(hit for hit, _ in matching))}.values())
    bm25 = [words.get(hit.id, 0.0) for hit in hits]
    [scores] = fuse(
        np.array([[hit.cosine for hit in hits]]), np.array([bm25]), weight, np.array([spread])
    )
    ranked = highest(scores, len(hits))[:k]
    return [replace(hits[place], bm25=bm25[place], hybrid=float(scores[place])) for place in ranked]


def measure_recall(database: Database, rows: int) -> tuple[float, int]:
    """Return the recall of the approximate index against exact search, and the number of queries.

    The queries are rows spread evenly over the index. Recall is the mean share of the 10 nearest
    rows that the approximate index finds, without the query itself.
    """
    ids, queries = database.sample(rows, RECALL_QUERIES)
    shares = []
    # One more than RECALL_AT, since the query is nearest to itself.
    truly_nearest = nearest(queries, database.vectors(), RECALL_AT + 1)
    for key, query, near in zip(ids, queries, truly_nearest, strict=True):
        lowest = float(near.products[-1]) - _ROUNDING
        hits = database.nearest(query, RECALL_AT + 1, None, approximate=True)
        cosines = [hit.cosine for hit in hits if hit.id != key][:RECALL_AT]
        shares.append(sum(cosine >= lowest for cosine in cosines) / RECALL_AT)
    return float(np.mean(shares)), len(ids)
