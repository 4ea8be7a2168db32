"""Selection among checkpoints, powers, objectives or candidates, and the gain of the selected.

Items are split by groups. Validation items select (at most a third of all, at most 1,000), and test
items test the selected candidate once. The first candidate is the base model.

1. Select the candidate with the highest mean on the validation items.
2. Test it on the test items (`verdict.verdict_of`).

Below `corpus.groups.SMALLEST_SPLIT` pairs a split would leave too few on either side. Then all
items select and test. The interval covers every candidate at once (max-t, with multipliers for the
groups; Chernozhukov, Chetverikov & Kato 2013). The gain is cross-fitted: each fold gives the gain
of the candidate that the other folds select, so that no item tests what it has selected. The gain
is reported where the base model is selected, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from isospace.statistics.gains import (
    CONFIDENCE,
    ROUNDING,
    FloatArray,
    Gain,
    Scores,
    gain,
    group_sums,
    influence_of_gain,
)

_DRAWS, _SEED = 10_000, 0
_FOLDS = 10
Name = TypeVar("Name")


@dataclass(frozen=True)
class SelectedAmong:
    """The candidates of a selection by the test items themselves, the base model first.

    `unseen` counts further candidates, without known scores, and `selection_bias` is by how much
    their selection raised the gain.
    """

    scores: Sequence[Scores]
    place: int
    unseen: int = 0
    selection_bias: float = 0.0

    @classmethod
    def named(
        cls,
        scores: Mapping[Name, Scores],
        selected: Name,
        allowed: Collection[Name] | None = None,
        unseen: int = 0,
        selection_bias: float = 0.0,
    ) -> SelectedAmong:
        """Build the selection from named candidates; those that are not `allowed` are unseen."""
        seen = [name for name in scores if allowed is None or name in allowed]
        unseen += len(scores) - len(seen)
        return cls([scores[name] for name in seen], seen.index(selected), unseen, selection_bias)


def best_position(scores: Sequence[Scores] | Sequence[float]) -> int:
    """Return the position of the highest score, or of the first of equal scores."""
    values = [s.mean if isinstance(s, Scores) else s for s in scores]
    return max(range(len(values)), key=values.__getitem__)


def measured_gain(
    after: Scores,
    before: Scores,
    among: SelectedAmong | None = None,
    confidence: float = CONFIDENCE,
) -> Gain:
    """Return the gain that a verdict is about; `among` are the candidates if these items selected.

    `confidence` is the level of the interval if other items did.
    """
    if among is None:
        return gain(after, before, confidence)
    return gain_of_selected(among, (after, before))


def best_other(candidates: Sequence[Scores]) -> int:
    """Return the position of the best candidate other than the base model.

    Its gain is reported even if the base model is selected: good gains alone would mislead.
    """
    return 1 + best_position(candidates[1:])


def best_by_others(values: FloatArray, parts: NDArray[np.int64]) -> list[int]:
    """Select a candidate for each part (item,) by the values (candidate, item) of other parts.

    >>> best_by_others(np.array([[0.0, 0.0, 0.0], [-1.0, 1.0, 1.0]]), np.array([0, 1, 2]))
    [1, 0, 0]
    """
    sums = group_sums(parts, values)
    return [int(place) for place in np.argmax(sums.sum(1, keepdims=True) - sums, axis=0)]


def gain_of_selected(among: SelectedAmong, measured: tuple[Scores, Scores] | None = None) -> Gain:
    """Return the gain over the base model of a candidate that the same items selected.

    The interval holds for all candidates at once. The error level is divided between known and
    unseen candidates (Bonferroni). The gain is reduced by `added_by_selecting`. `measured` are more
    precise scores of the selected candidate and of the base model.
    """
    base, others = among.scores[0], among.scores[1:]
    after, before = measured or (among.scores[among.place], base)
    influences = np.stack([influence_of_gain(scores, base) for scores in others])
    sizes = np.linalg.norm(influences, axis=1)
    varied = sizes > ROUNDING
    if not varied.any():
        return gain(after, before)
    every = len(others) + among.unseen
    level = _simultaneous_level(influences[varied] / sizes[varied, None])
    level /= math.ceil(every / len(others))
    found = gain(after, before, confidence=1 - level)
    mean = found.mean - added_by_selecting(among.scores) - among.selection_bias
    return replace(
        found,
        mean=mean,
        # The p of a single test; p < 5 % means the same as the interval.
        p=min(1.0, found.p * (1 - CONFIDENCE) / level),
        # Widen the interval only if it would not contain the estimate.
        low=min(found.low, mean),
        high=max(found.high, mean),
        candidates=every,
    )


def added_by_selecting(candidates: Sequence[Scores]) -> float:
    """Return by how much the selection of the best candidate overstates its gain; 0 or more."""
    means = [scores.mean for scores in candidates]
    return max(0.0, max(means[1:]) - means[0] - _cross_fitted(candidates))


def _simultaneous_level(standardised: FloatArray) -> float:
    """Return the level of each test at which all tests together are right in 95 % of the cases.

    `standardised`: (candidate, group) influences; the squares of a row add up to 1.
    """
    # Normal multipliers for the groups make normal values with the candidates' correlations.
    correlations = standardised @ standardised.T
    drawn = np.random.default_rng(_SEED).multivariate_normal(
        np.zeros(len(correlations)), correlations, _DRAWS, check_valid="ignore", method="eigh"
    )
    largest = np.abs(drawn).max(1)
    critical = float(np.quantile(largest, CONFIDENCE))
    return min(1 - CONFIDENCE, 2 * float(stats.norm.sf(critical)))


def _cross_fitted(candidates: Sequence[Scores]) -> float:
    """Return the mean gain that each fold of groups gives the candidate of the other folds."""
    groups = candidates[0].groups
    sums = group_sums(groups, np.stack([scores.values.mean(0) for scores in candidates]))
    [sizes] = group_sums(groups, np.ones((1, len(groups))))
    order = np.random.default_rng(_SEED).permutation(len(sizes))
    total = 0.0
    for fold in np.array_split(order, min(_FOLDS, len(order))):
        inside = sums[:, fold].sum(1)
        outside = sums.sum(1) - inside
        total += float(inside[1 + int(np.argmax(outside[1:]))] - inside[0])
    return total / float(sizes.sum())
