"""Measures of labelled sentences: a vote of neighbours, and clusters compared with labels.

Both work without training on the labels: they measure the space of the encoder.
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
"""Number of neighbours that vote."""

_STARTS, _SEED = 10, 0  # for k-means


def knn_accuracy(x: Embeddings, labels: Sequence[str], k: int = NEIGHBOURS) -> float:
    """Return the share of sentences whose label wins a vote of their k nearest neighbours.

    Neighbours are found by cosine among all other sentences (leave one out), and each has one vote.
    Sentences that tie for the last places (within `nearest.TIE`) share the votes of these places.
    Labels that tie for the most votes share the credit. So the order of rows does not matter. A
    collapsed encoder gets about the share of the commonest label.

    `x` is `(sentence, dim)`; with fewer than k other sentences all of them vote.

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

    Clusters C are those of k-means on the unit vectors, as many as labels L. The measure is
    $2 I(C; L) / (H(C) + H(L))$, equal to the V-measure that mteb reports. It is NaN if a row is not
    finite.

    `x` is `(sentence, dim)`.
    """
    units = normalised(x).astype(np.float32)
    if not np.isfinite(units).all():
        return float("nan")
    means = KMeans(len(set(labels)), n_init=_STARTS, random_state=_SEED)
    with warnings.catch_warnings():
        # A collapsed encoder has fewer distinct vectors than labels; k-means warns of that.
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters = means.fit_predict(units)
    return float(normalized_mutual_info_score(labels, clusters))
