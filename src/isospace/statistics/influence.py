r"""Scores of encoders on test items, with the influence of each item on its score.

A score is a function of its items. To first order, its error is a sum over them,

    score - truth = sum_i influence_i,

and this sum serves every question about chance. Items that belong together are added before they
are squared (clusters). The mean of several sets joins their items. Two encoders are compared by
subtracting their influences (pairing). For a mean of n values, the influence is
(value_i - mean) / n. For a rank correlation, it includes the effect of a pair on the ranks of the
others.

In a retrieval, each item is a query and, with its target, a candidate of all other queries. Both
have influence. Whether a candidate is ranked before a query's own target depends on query and
candidate, so the sum of both influences would count this twice (intervals on docstrings would be a
third too wide; Efron & Stein 1981). Therefore the influence as a candidate comes in two halves: on
the queries of one half of the groups, and on those of the other half. They are independent, so four
times their product is the variance of the candidates alone.

Sources: the infinitesimal jackknife (Jaeckel 1972; Efron 1982, chapter 6), by clusters as in Liang
& Zeger 1986 and, for items of two parts, Fafchamps & Gubert 2007; the degrees of freedom from
Kish's effective number of clusters (Kish 1965).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

FloatArray: TypeAlias = NDArray[np.float64]


def cosine(x: NDArray[Any], y: NDArray[Any]) -> FloatArray:
    """Return the cosine of `x[i]` and `y[i]`; 0 if it is undefined (a zero row, NaN).

    It is computed in float64 and rounded to float32. So equal rows have exactly 1, and pairs of
    equal sentences tie. Otherwise the last bit would order them, which changes Spearman by up to
    0.0007 in a set with many of them (STS12's SMTeuroparl: 65 of 459).

    >>> cosine(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[4.0, 3.0], [1.0, 0.0]]))
    array([0.95999998, 0.        ])
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values = (x * y).sum(1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1))
    return np.where(np.isfinite(values), values, 0.0).astype(np.float32).astype(np.float64)


def pearson(x: FloatArray, y: FloatArray) -> float:
    """Return Pearson's correlation; 0 if a column is constant.

    >>> round(pearson(np.array([1.0, 2.0, 3.0]), np.array([6.0, 4.0, 2.0])), 6)
    -1.0
    """
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)), -1.0, 1.0))


def spearman(x: FloatArray, y: FloatArray) -> float:
    """Return Spearman's correlation: Pearson's of the ranks, with ties at their mean rank.

    >>> round(spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 9.0])), 6)
    0.5
    """
    return pearson(rankdata(x), rankdata(y))


@dataclass(frozen=True)
class Scores:
    """Scores of one encoder for each seed, with the influence of each item.

    Attributes:
        by_seed: (seed,) scores; an untrained encoder has one seed.
        values: (seed, item).
        influence: (seed, item).
        shared: (half, seed, item) influence of each item as a candidate, on the queries of either
            half; zeros if items do not affect each other's values.
        weights: (item,) weight of each item in the score; the sum is 1.
        groups: (item,) group number of each item; or (item, 2) if an item has two parts, such as
            sentences, and depends on all items that share one of them.
    """

    by_seed: FloatArray
    values: FloatArray
    influence: FloatArray
    shared: FloatArray
    weights: FloatArray
    groups: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return float(self.by_seed.mean())

    @property
    def effective_groups(self) -> float:
        """Effective number of groups (Kish): that of equal groups with the same variance."""
        return 1.0 / sum_of_products(self.groups, self.weights, self.weights)


def group_sums(groups: NDArray[np.int64], rows: NDArray[Any]) -> FloatArray:
    """Sum rows (row, item) over the items of each group: (row, group).

    >>> group_sums(np.array([7, 5, 7]), np.array([[1.0, 10.0, 100.0]]))
    array([[ 10., 101.]])
    """
    names, places = np.unique(groups, return_inverse=True)
    return np.stack([np.bincount(places, row, len(names)) for row in rows])


def sum_of_products(groups: NDArray[np.int64], x: FloatArray, y: FloatArray) -> float:
    """Sum x_i y_j over all items i and j that depend on each other, i = j included.

    `groups` are (item,) or (item, 2), as in `Scores`. With two parts, the sums over both parts are
    added, and pairs of items that share both parts are subtracted once (Fafchamps & Gubert 2007;
    Cameron, Gelbach & Miller 2011).

    >>> x = np.array([1.0, 10.0, 100.0])
    >>> sum_of_products(np.array([7, 5, 7]), x, x)
    10301.0
    >>> sum_of_products(np.array([[1, 2], [2, 3], [3, 4]]), x, x)  # all but the first and the last
    12121.0
    """
    if groups.ndim == 1:
        a, b = group_sums(groups, np.stack([x, y]))
        return float(a @ b)
    parts = np.sort(groups, axis=1)
    two = parts[:, 0] != parts[:, 1]
    by_part = np.concatenate([parts[:, 0], parts[two, 1]])
    a, b = group_sums(by_part, np.stack([np.concatenate([z, z[two]]) for z in (x, y)]))
    both = np.unique(parts[two], axis=0, return_inverse=True)[1].ravel()
    c, d = group_sums(both, np.stack([x[two], y[two]]))
    return float(a @ b - c @ d)


def mean_scores(
    values: FloatArray, groups: NDArray[np.int64], displacement: FloatArray | None = None
) -> Scores:
    """Return means of values (seed, item), such as reciprocal ranks.

    `displacement` (half, seed, item) is by how much each item lowers the sum of the others' values,
    as in `RetrievalScores`; default: 0.
    """
    n = values.shape[1]
    if displacement is None:
        displacement = np.zeros((2, *values.shape))
    influence, shared = _centred(values) / n, -_centred(displacement) / n
    return Scores(values.mean(1), values, influence, shared, np.full(n, 1 / n), groups)


def spearman_scores(cosines: FloatArray, gold: FloatArray, groups: NDArray[np.int64]) -> Scores:
    """Return Spearman's correlations of cosines (seed, pair) with gold scores (pair,).

    `groups` are (pair,) group numbers, or (pair, 2) numbers of the two sentences.
    """
    n = len(gold)
    by_seed = np.array([spearman(row, gold) for row in cosines])
    influence = np.stack([_spearman_influence(row, gold) for row in cosines]) / n
    return Scores(
        by_seed, cosines, influence, np.zeros((2, *cosines.shape)), np.full(n, 1 / n), groups
    )


def average(parts: Sequence[Scores]) -> Scores:
    """Return the mean of several scores with the same seeds; sets may share groups."""
    count = len(parts)
    return Scores(
        np.mean([part.by_seed for part in parts], axis=0),
        np.concatenate([part.values for part in parts], axis=1),
        np.concatenate([part.influence for part in parts], axis=1) / count,
        np.concatenate([part.shared for part in parts], axis=2) / count,
        np.concatenate([part.weights for part in parts]) / count,
        np.concatenate([part.groups for part in parts]),
    )


def _spearman_influence(x: FloatArray, y: FloatArray) -> FloatArray:
    r"""Return the influence function of Spearman's correlation at each pair, (pair,).

    With mean ranks as distribution functions, u = F(x) and v = G(y) about their mean 1/2, the
    correlation is S_uv / sqrt(S_uu S_vv) with S_uv = mean(u v). A pair acts on S_uv by its own
    product and by the ranks that it moves:

        u_j v_j + mean_i F_j(x_i) v_i + mean_i G_j(y_i) u_i + constant,

    F_j being the distribution of x_j alone (1 above it, 1/2 at it, 0 below).
    """
    n = len(x)
    u, v = ((rankdata(values) - 0.5) / n - 0.5 for values in (x, y))
    s_uv, s_uu, s_vv = (float(np.mean(product)) for product in (u * v, u * u, v * v))
    if s_uu <= 0 or s_vv <= 0:  # a constant column ranks nothing
        return np.zeros(n)

    uv = u * v + _mean_above(x, v) + _mean_above(y, u)
    uu = u * u + 2 * _mean_above(x, u)
    vv = v * v + 2 * _mean_above(y, v)
    scale = np.sqrt(s_uu * s_vv)
    influence: FloatArray = uv / scale - s_uv / scale / 2 * (uu / s_uu + vv / s_vv)
    return _centred(influence)


def _mean_above(x: FloatArray, values: FloatArray) -> FloatArray:
    """Return mean_i of values_i where x_i > x_j, half where x_i = x_j; for each j, (item,)."""
    distinct, places = np.unique(x, return_inverse=True)
    totals = np.bincount(places, values, len(distinct))
    above = np.cumsum(totals[::-1])[::-1] - totals
    return np.asarray((above + totals / 2)[places] / len(x))


def _centred(rows: FloatArray) -> FloatArray:
    return np.asarray(rows - rows.mean(-1, keepdims=True))
