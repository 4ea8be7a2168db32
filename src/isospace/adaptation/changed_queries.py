"""Queries whose right text moved most between two encoders, with what each put first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isospace.adaptation.results import ChangedQuery
from isospace.evaluation.pairs import PromptedEncoders, TextPairs, unit_vectors
from isospace.evaluation.retrieval import Targets
from isospace.operators.nearest import highest
from isospace.statistics.correlation import FloatArray

SHOWN, FIRST = 10, 3
"""Queries of each sort, and texts that stood first for each."""


def changed_places(before: FloatArray, after: FloatArray) -> tuple[list[int], list[int]]:
    """The places of the queries that gained most and that lost most in reciprocal rank.

    Args:
        before: (query,) ranks by the one encoder.
        after: by the other.

    >>> changed_places(np.array([1.0, 9.0, 2.0]), np.array([4.0, 1.0, 2.0]))
    ([1], [0])
    """
    change = 1 / after - 1 / before
    order = np.argsort(-change, kind="stable")
    better = [int(place) for place in order[:SHOWN] if change[place] > 0]
    worse = [int(place) for place in order[::-1][:SHOWN] if change[place] < 0]
    return better, worse


def first_texts(
    encode: PromptedEncoders, pairs: TextPairs, places: Sequence[int]
) -> list[tuple[str, ...]]:
    """The texts that an encoder puts first for some of the queries."""
    targets = Targets.of_pairs(pairs)
    queries, texts = unit_vectors(encode, pairs.first, targets.texts)
    found = []
    for place in places:
        cosines = texts @ queries[place]
        if targets.left_out is not None:  # other right texts of the query are not ranked for it
            others = targets.left_out[place]
            cosines[others[others != targets.own[place]]] = -np.inf
        best = highest(cosines, min(FIRST, len(cosines)))
        found.append(tuple(targets.texts[text] for text in best))
    return found


def changed_queries(
    pairs: TextPairs,
    places: Sequence[int],
    ranks: tuple[FloatArray, FloatArray],
    first: Sequence[Sequence[tuple[str, ...]]],
) -> tuple[ChangedQuery, ...]:
    """The queries at these places, before and after.

    Args:
        pairs: the test pairs.
        places: of some of them.
        ranks: (query,) of the right texts of all, before and after.
        first: for each of the places the texts that stood first, before and after.
    """
    return tuple(
        ChangedQuery(
            pairs.first[place],
            pairs.second[place],
            (float(ranks[0][place]), float(ranks[1][place])),
            (first[0][number], first[1][number]),
        )
        for number, place in enumerate(places)
    )
