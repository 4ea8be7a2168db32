"""Measures of labelled sentences: a vote of neighbours, and clusters against labels.

Both need no training on the labels: they measure the space as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score

from isospace.evaluation.geometry import Embeddings, as_array, normalised, require_two_rows
from isospace.operators.nearest import other_products, shares_of_places, unit_rows

NEIGHBOURS = 10
"""Neighbours that vote."""

_STARTS, _SEED = 10, 0  # of k-means


def knn_accuracy(x: Embeddings, labels: Sequence[str], k: int = NEIGHBOURS) -> float:
    """Return the share of sentences whose label most of their k nearest others have.

    Cosine, every other sentence being a candidate (leave one out), one vote each. Sentences that
    tie for the last places (within `nearest.TIE`) share them, and labels that tie for the most
    votes share the credit, so that the order of the rows has no part in the result. A collapsed
    encoder gets about the share of the commonest label.

    `x` is `(sentence, dim)`; where there are no k others, all of them vote.

    >>> circle = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    >>> knn_accuracy(circle, ["east", "east", "north", "north"], k=1)
    1.0
    """
    n = require_two_rows(as_array(x))
    k = min(k, n - 1)
    names, numbers = np.unique(np.asarray(labels), return_inverse=True)
    members = np.eye(len(names))[numbers]
    credit = 0.0
    for start, cosines in other_products(unit_rows(as_array(x))):
        votes = shares_of_places(cosines, k) @ members
        most = votes >= votes.max(1, keepdims=True) - 1e-9
        own = numbers[start : start + len(cosines)]
        credit += float((most[np.arange(len(own)), own] / most.sum(1)).sum())
    return credit / n


def cluster_nmi(x: Embeddings, labels: Sequence[str]) -> float:
    r"""Return the normalised mutual information of clusters and labels, 0 to 1.

    k-means on the unit vectors with as many clusters as labels, and the normalised mutual
    information of the two, $2 I(C; L) / (H(C) + H(L))$, which is the V-measure that mteb reports.
    Where a row is not finite it is NaN.

    `x` is `(sentence, dim)`.
    """
    units = normalised(x).astype(np.float32)
    if not np.isfinite(units).all():
        return float("nan")
    means = KMeans(len(set(labels)), n_init=_STARTS, random_state=_SEED)
    with warnings.catch_warnings():
        # Fewer distinct vectors than labels: a collapsed encoder, whose score says so.
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters = means.fit_predict(units)
    return float(normalized_mutual_info_score(labels, clusters))
