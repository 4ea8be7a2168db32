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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from isospace.statistics.influence import FloatArray, Scores, group_sums, sum_of_products

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
    """A gain (after - before), its interval and p-value, in units of the score (0 to 1).

    The interval stays within -1 and 1.

    Attributes:
        low: lower end of the 95 % interval.
        p: two-sided p of Student's t.
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
