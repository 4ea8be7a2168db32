"""Gain of one encoder over another, with its interval and p-value for other seeds and items.

A gain measured by some seeds on some items varies with both. With seeds and items as crossed random
effects its variance is, up to their interaction, the sum of

    seeds: sd^2 / s of each encoder that was trained with s > 1 seeds,
    items: G / (G - 1) * sum_g (q_g^2 + 2 q_g (a_g + b_g) + 4 a_g b_g) over the G groups of items
        (of pairs of sentences: over all pairs of items that share one, `sum_of_products`),

where q, a and b are sums over a group's items of their influence on the mean gain: q of the items
as queries, a and b as candidates of either half of the other items (`influence`). The candidates'
part is at least zero. Each part has its own degrees of freedom: s - 1 for seeds; for items those of
the variance of G values with kurtosis k,

    2 / ((k - 3) / G + 2 / (G - 1)),

but at most Kish's effective number of groups less one. If a few groups decide, because they are
large or because most did not change, this is less than G - 1. With G - 1, Student's t would find
too many gains (docs/results/placebo.md).

The ratio of gain and standard error is compared with the mean of the parts' critical values of
Student's t, weighted by their shares of the variance (Cochran 1964). So a few seeds that agree by
chance do not make the test too bold. The interaction is counted twice, which makes the test
conservative. With one seed, the interval covers the items only.

Sources: Cochran 1964, Biometrics 20; Liang & Zeger 1986, Biometrika 73; Satterthwaite 1946,
Biometrics Bulletin 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special
from scipy.stats import rankdata

FloatArray: TypeAlias = NDArray[np.float64]


def cosine(x: NDArray[Any], y: NDArray[Any]) -> FloatArray:
    """Return the cosine of `x[i]` and `y[i]`; 0 if it is undefined (a zero row, NaN).

    It is rounded to float32, so that pairs of equal sentences tie. Otherwise the last bit would
    order them, which changes Spearman by up to 0.0007 (STS12's SMTeuroparl has 65 of 459).

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
    """Return Spearman's correlation, with ties at their mean rank.

    >>> round(spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 9.0])), 6)
    0.5
    """
    return pearson(rankdata(x), rankdata(y))


@dataclass(frozen=True)
class Scores:
    """Scores of one encoder for each seed, with the influence of each item.

    To first order, the error of a score is a sum over its items,

        score - truth = sum_i influence_i.

    Items that belong together are added before they are squared (clusters). The mean of several
    sets joins their items. Two encoders are compared by subtracting their influences (pairing). For
    a mean of n values, the influence is (value_i - mean) / n. For a rank correlation, it includes
    the effect of a pair on the ranks of the others.

    In a retrieval, each item is a query and, with its target, a candidate of all other queries.
    The sum of both influences would count twice whether a candidate is ranked before a query's own
    target (intervals on docstrings would be a third too wide; Efron & Stein 1981). Therefore the
    influence as a candidate comes in two halves, on the queries of either half of the groups. The
    halves are independent, so four times their product is the variance of the candidates alone.

    Sources: the infinitesimal jackknife (Jaeckel 1972; Efron 1982, chapter 6), by clusters as in
    Liang & Zeger 1986 and, for items of two parts, Fafchamps & Gubert 2007; the degrees of freedom
    from Kish's effective number of clusters (Kish 1965).

    Attributes:
        by_seed: (seed,) scores; an untrained encoder has one seed.
        values: (seed, item).
        influence: (seed, item).
        shared: (half, seed, item) influence of each item as a candidate; zeros if items do not
            affect each other's values.
        weights: (item,) weight of each item in the score; the sum is 1.
        groups: (item,) group numbers; or (item, 2) if an item has two parts, such as sentences, and
            depends on all items that share one of them.
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

    With two parts (item, 2), the sums over both parts are added, and pairs of items that share both
    parts are subtracted once (Fafchamps & Gubert 2007; Cameron, Gelbach & Miller 2011).

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
    """Return means of values (seed, item); `displacement` is as in `RetrievalScores`, by seed."""
    n = values.shape[1]
    if displacement is None:
        displacement = np.zeros((2, *values.shape))
    influence, shared = _centred(values) / n, -_centred(displacement) / n
    return Scores(values.mean(1), values, influence, shared, np.full(n, 1 / n), groups)


def spearman_scores(cosines: FloatArray, gold: FloatArray, groups: NDArray[np.int64]) -> Scores:
    """Return Spearman's correlations of cosines (seed, pair) with gold scores (pair,)."""
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
    """Return for each j mean_i of values_i where x_i > x_j, and half where x_i = x_j, (item,)."""
    distinct, places = np.unique(x, return_inverse=True)
    totals = np.bincount(places, values, len(distinct))
    above = np.cumsum(totals[::-1])[::-1] - totals
    return np.asarray((above + totals / 2)[places] / len(x))


def _centred(rows: FloatArray) -> FloatArray:
    return np.asarray(rows - rows.mean(-1, keepdims=True))


CONFIDENCE = 0.95

FEWEST_GROUPS = 20
"""Smallest number of changed groups for a verdict; fewer say too little about the others."""

ROUNDING = 1e-12
"""Largest difference that rounding can cause."""
_SMALLEST_LOG_P = -100.0
"""Smallest log p; scipy has no quantiles beyond it."""
_RULE_OF_THREE = 3.0
"""If none of n items changed, fewer than 3 / n of all do, at 95 % (Hanley & Lippman-Hand 1983)."""


@dataclass(frozen=True)
class Gain:
    """A gain (after - before), its 95 % interval and two-sided p, in units of the score (0 to 1).

    Attributes:
        groups: number of groups of items, or of sentences in the pairs.
        changed: number of items whose value changed with any seed.
        sd: standard deviation over the seeds; `None` for one seed.
        candidates: number of candidates that the interval covers at once; more than one if the same
            items selected.
    """

    mean: float
    low: float
    high: float
    p: float
    items: int
    groups: int
    changed: int
    changed_groups: int
    seeds: int = 1
    sd: float | None = None
    candidates: int = 1

    def __str__(self) -> str:
        """Format the gain in points of 100."""
        several = "" if self.candidates == 1 else f", best of {self.candidates} tried"
        interval = f"95 % interval {self.interval}{several}"
        return f"{100 * self.mean:+.2f} points ({interval})"

    @property
    def interval(self) -> str:
        """The two ends of the interval in points of 100."""
        return f"{100 * self.low:+.2f} to {100 * self.high:+.2f}"

    @property
    def points(self) -> str:
        """The gain and its interval in points of 100, for a cell of a table."""
        return f"{100 * self.mean:+.2f} ({self.interval})"


@dataclass(frozen=True)
class _Parts:
    """Variances of the independent parts of an error, with their degrees of freedom."""

    variances: FloatArray
    freedom: FloatArray

    @property
    def error(self) -> float:
        return math.sqrt(float(self.variances.sum()))

    def critical(self, p: float) -> float:
        """Return Cochran's critical value of a two-sided test at level p."""
        shares = self.variances / self.variances.sum()
        return float(shares @ -special.stdtrit(self.freedom, p / 2))

    def p(self, t: float) -> float:
        """Return the two-sided p of a ratio to the standard error."""

        def excess(log_p: float) -> float:
            return self.critical(10.0**log_p) - abs(t)

        if excess(_SMALLEST_LOG_P) <= 0:
            return float(10.0**_SMALLEST_LOG_P)
        return float(10.0 ** optimize.brentq(excess, _SMALLEST_LOG_P, 0.0))


def gain(after: Scores, before: Scores, confidence: float = CONFIDENCE) -> Gain:
    """Return the gain of one encoder over another on the same items in the same order."""
    mean = after.mean - before.mean
    changed = _changed(after, before)
    parts = _parts(after, before)
    groups, seeds = len(np.unique(after.groups)), len(after.by_seed)
    changed_groups = len(np.unique(after.groups[changed]))
    unseen = min(1.0, _RULE_OF_THREE / groups)
    if not changed.any():
        margin, p = unseen, 1.0
    elif parts.error == math.inf:  # one group says nothing about others
        margin, p = math.inf, 1.0
    elif parts.error <= ROUNDING:  # equal gains: at worst, the unseen share loses everything
        margin, p = unseen * (1 + abs(mean)), (1 + abs(mean)) ** -groups
    else:
        critical = parts.critical(1 - confidence)
        # A few changed groups say no more about the others than none does.
        least = unseen / critical if changed_groups < FEWEST_GROUPS else 0.0
        error = max(parts.error, least)
        margin, p = critical * error, parts.p(mean / error)
    return Gain(
        mean,
        max(-1.0, mean - margin),
        min(1.0, mean + margin),
        p,
        items=len(changed),
        groups=groups,
        changed=int(changed.sum()),
        changed_groups=changed_groups,
        seeds=seeds,
        sd=float(after.by_seed.std(ddof=1)) if seeds > 1 else None,
    )


def influence_of_gain(after: Scores, before: Scores) -> FloatArray:
    """Return each group's influence on the mean gain (group,), without that as candidates."""
    difference = after.influence.mean(0) - before.influence.mean(0)
    return np.asarray(group_sums(after.groups, difference[None])[0])


def standard_error(after: Scores, before: Scores | None = None) -> float:
    """Return the standard error over items of a mean gain, or of a score if `before` is missing."""
    own, shared = after.influence.mean(0), after.shared.mean(1)
    if before is not None:
        own, shared = own - before.influence.mean(0), shared - before.shared.mean(1)
    groups, n = after.groups, len(np.unique(after.groups))
    if n < 2:
        return math.inf
    # At least the variance of independent items, below which the sum by parts can fall.
    of_items = max(float(own @ own), sum_of_products(groups, own, own))
    of_candidates = 2 * sum_of_products(groups, own, shared.sum(0))
    of_candidates += 4 * sum_of_products(groups, *shared)
    return math.sqrt(n / (n - 1) * (of_items + max(0.0, of_candidates)))


def _parts(after: Scores, before: Scores) -> _Parts:
    variances = [standard_error(after, before) ** 2]
    freedom = [_freedom(after, before)]
    for scores in (after, before):
        seeds = len(scores.by_seed)
        if seeds > 1:
            variances.append(float(scores.by_seed.var(ddof=1)) / seeds)
            freedom.append(seeds - 1.0)
    return _Parts(np.array(variances), np.array(freedom))


def _freedom(after: Scores, before: Scores) -> float:
    """Return the degrees of freedom of the items' variance; 1 or more."""
    if after.groups.ndim == 1:
        contributed = influence_of_gain(after, before)
    else:
        contributed = after.influence.mean(0) - before.influence.mean(0)
    squares = np.square(contributed)
    n, total = len(squares), float(squares.sum())
    if n < 2 or total == 0:
        return 1.0
    kurtosis = n * float(squares @ squares) / total**2
    freedom = 2 / ((kurtosis - 3) / n + 2 / (n - 1))
    return max(1.0, min(freedom, after.effective_groups - 1))


def _changed(after: Scores, before: Scores) -> NDArray[np.bool_]:
    """Return (item,) true for items whose value changed with any pair of seeds."""
    low = np.minimum(after.values.min(0), before.values.min(0))
    high = np.maximum(after.values.max(0), before.values.max(0))
    return np.asarray(low != high)
