"""Gain of one encoder over another, with its interval and p-value for other seeds and items.

A gain measured by some seeds on some items varies with both. With seeds and items as crossed random
effects its variance is, up to their interaction, the sum of

    seeds: sd^2 / s of each encoder that was trained with s > 1 seeds,
    items: G / (G - 1) * sum_g (q_g^2 + 2 q_g (a_g + b_g) + 4 a_g b_g) over the G groups of items
        (of pairs of sentences: over all pairs of items that share one, `sum_of_products`),

where q, a and b are sums over a group's items of the influences on the mean gain over the seeds: of
the items themselves, and as candidates of either half of the others (`influence`); what candidates
add is not let fall below zero. Each part has its own degrees of freedom: s - 1 of seeds; of items
those of the variance of G values with kurtosis k,

    2 / ((k - 3) / G + 2 / (G - 1)),

but not more than Kish's effective number of groups less one. Where few groups say most, because
they are large or because most did not change, that is fewer than G - 1, with which Student's t
would call too much a gain (docs/results/placebo.md). The gain over its standard error is held
against the mean of the parts' critical values of Student's t, weighted by their share of the
variance (Cochran 1964), because a few seeds that happen to agree would tell too little of their
variance. The interaction enters twice, so that the test errs on the side of no difference. With one
seed only the items can be judged.

Sources: Cochran 1964, Biometrics 20; Liang & Zeger 1986, Biometrika 73; Satterthwaite 1946,
Biometrics Bulletin 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from isospace.statistics.correlation import FloatArray
from isospace.statistics.influence import Scores, group_sums, sum_of_products

CONFIDENCE = 0.95

FEWEST_GROUPS = 20
"""Of groups that changed; fewer say too little of how much the others may change."""

ROUNDING = 1e-12
"""What is no larger is rounding: items that all came to the same differ by as much from a mean."""
_SMALLEST_LOG_P = -100.0
"""What is smaller is not told apart, and is beyond scipy's quantiles."""
_FLIPS, _SEED = 10_000, 0  # of the signs
_RULE_OF_THREE = 3.0
"""Where none of n changed, less than 3 / n of all do, at 95 % (Hanley & Lippman-Hand 1983)."""


@dataclass(frozen=True)
class Gain:
    """A gain (after - before), its interval and p-value, in units of the score (0 to 1).

    The interval ends where gains of such scores end, at -1 and 1.

    Attributes:
        mean: over the seeds.
        low: lower end of the 95 % interval.
        high: its upper end.
        p: two-sided, of Student's t.
        items: number of test items.
        groups: number of groups that they form, or of sentences that they are made of.
        changed: items that came to something else with any seed.
        changed_groups: groups that have such items.
        seeds: number of them.
        sd: over the seeds; `None` for one seed.
        candidates: how many the interval holds for at once; more than one where the same items
            chose among them.
        flip_p: p of flipping the signs of whole groups, where few groups changed.
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
    flip_p: float | None = None

    def __str__(self) -> str:
        """Format the gain in points of 100."""
        flips = "" if self.flip_p is None else f", sign-flip p {self.flip_p:.2g}"
        several = "" if self.candidates == 1 else f", best of {self.candidates} tried"
        interval = f"95 % interval {self.interval}{several}"
        return f"{100 * self.mean:+.2f} points ({interval}{flips})"

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
    """Variances of independent parts of an error, and the degrees of freedom of each."""

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
    """Return the gain of one encoder over another on the same items, in the same order."""
    mean = after.mean - before.mean
    changed = _changed(after, before)
    parts = _parts(after, before)
    groups, seeds = len(np.unique(after.groups)), len(after.by_seed)
    changed_groups = len(np.unique(after.groups[changed]))
    unseen = min(1.0, _RULE_OF_THREE / groups)
    if not changed.any():
        margin, p = unseen, 1.0
    elif parts.error == math.inf:  # one group: nothing says what others gain
        margin, p = math.inf, 1.0
    elif parts.error <= ROUNDING:  # all gain the same: what is unseen may lose all there is
        margin, p = unseen * (1 + abs(mean)), (1 + abs(mean)) ** -groups
    else:
        critical = parts.critical(1 - confidence)
        # A few that changed tell no more of the others than none.
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


def gain_by_seed(after: Scores, before: Scores) -> Gain:
    """Return the gain where each seed of `after` is a change of the same seed of `before`.

    Such as the runs of a row fused with BM25, over these runs alone: what one seed has more than
    another is on both sides, and is no chance of the gain.
    """
    nothing = np.zeros((1, len(after.groups)))
    change = replace(
        after,
        by_seed=after.by_seed - before.by_seed,
        values=after.values - before.values,
        influence=after.influence - before.influence,
        shared=after.shared - before.shared,
    )
    none = replace(
        after,
        by_seed=np.zeros(1),
        values=nothing,
        influence=nothing,
        shared=np.zeros((2, 1, len(after.groups))),
    )
    return gain(change, none)


def influence_of_gain(after: Scores, before: Scores) -> FloatArray:
    """Return each group's influence on the mean gain, but as candidates, (group,)."""
    difference = after.influence.mean(0) - before.influence.mean(0)
    sums: FloatArray = group_sums(after.groups, difference[None])[0]
    return sums


def standard_error(after: Scores, before: Scores | None = None) -> float:
    """Return the error of the mean gain over the seeds, or of a score, for other items."""
    own, shared = after.influence.mean(0), after.shared.mean(1)
    if before is not None:
        own, shared = own - before.influence.mean(0), shared - before.shared.mean(1)
    groups, n = after.groups, len(np.unique(after.groups))
    if n < 2:
        return math.inf
    # Never less than of items that are independent; by parts the sum can fall below it.
    of_items = max(float(own @ own), sum_of_products(groups, own, own))
    of_candidates = 2 * sum_of_products(groups, own, shared.sum(0))
    of_candidates += 4 * sum_of_products(groups, *shared)
    return math.sqrt(n / (n - 1) * (of_items + max(0.0, of_candidates)))


def sign_flip_p(after: Scores, before: Scores) -> float:
    """Return the two-sided p of the mean difference, flipping the signs of whole groups.

    Exact for differences that are as likely to be of either sign, however few they are (Fisher
    1935); of one seed each.
    """
    [sums] = group_sums(after.groups, after.values - before.values)
    sums = sums[sums != 0]
    if len(sums) == 0:
        return 1.0
    signs = np.random.default_rng(_SEED).choice([-1.0, 1.0], size=(_FLIPS, len(sums)))
    # Rounding must not tell equal sums apart.
    extreme = np.abs(signs @ sums) >= abs(sums.sum()) * (1 - 1e-9)
    return float((1 + extreme.sum()) / (1 + _FLIPS))


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
    """Return the degrees of freedom of the items' variance, 1 or more."""
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
    """Return the items whose value changed with any pair of seeds, (item,)."""
    low = np.minimum(after.values.min(0), before.values.min(0))
    high = np.maximum(after.values.max(0), before.values.max(0))
    changed: NDArray[np.bool_] = low != high
    return changed
