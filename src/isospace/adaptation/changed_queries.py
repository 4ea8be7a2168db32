"""Queries whose right text moved most between two encoders, with the top texts of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isospace.adaptation.results import ChangedQuery
from isospace.evaluation.pairs import PromptedEncoders, TextPairs, unit_vectors
from isospace.evaluation.retrieval import Targets
from isospace.operators.nearest import highest
from isospace.statistics.influence import FloatArray

SHOWN, FIRST = 10, 3
"""Number of queries that gained or lost most, and number of top texts for each."""


def changed_places(before: FloatArray, after: FloatArray) -> tuple[list[int], list[int]]:
    """Return the positions of the queries that gained most and lost most in reciprocal rank.

    Args:
        before: (query,) ranks by the first encoder.
        after: (query,) ranks by the second encoder.

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
    """Return the top texts of an encoder for the queries at some positions."""
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
    """Return the queries at some positions, with ranks and top texts before and after.

    `ranks` has the (query,) ranks of all queries, `first` the top texts for each position; both are
    pairs of before and after.
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
