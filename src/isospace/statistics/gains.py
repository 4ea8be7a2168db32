"""Several seeds, several encoders: which gains would hold for other seeds and other test items?

A gain measured by `s` seeds on `n` items varies with both. With seeds and items as crossed random
effects the variance of the mean gain is, up to their interaction,

    SE^2 = SE_seeds^2 + SE_items^2,   SE_seeds = sd(gain per seed) / sqrt(s),
    SE_items = sd of the mean gain over bootstrap resamples of the items.

A few seeds tell little about SE_seeds. So gain / SE is held against a critical value in which each
part of the variance has its own, weighted by that part (Cochran 1964): of Student's t with s - 1
degrees of freedom for the seeds, of the normal distribution for the items. (Satterthwaite's degrees
of freedom are too many whenever a few seeds happen to agree.) The interaction enters twice, so that
the test errs on the side of no difference. With one seed only the items can be judged.
Sources: Cochran 1964, Biometrics 20; Efron & Tibshirani 1993, chapter 13.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from isospace.statistics.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    PairSet,
    resampled_means,
    resampled_spearmans,
)
from isospace.statistics.correlation import FloatArray, spearman

_SEED = 0  # of the resampling
_SMALLEST_LOG_P = -100.0
"""What is smaller is not told apart, and is beyond scipy's quantiles."""


@dataclass(frozen=True)
class Gain:
    """A gain over the start, its interval and p-value, in units of the score (0 to 1).

    Attributes:
        mean: over the seeds.
        sd: over the seeds; `None` for one seed.
        seeds: number of them.
        items: number of test items.
        low: lower end of the 95 % interval.
        high: its upper end.
        p: two-sided.
    """

    mean: float
    sd: float | None
    seeds: int
    items: int
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Gains:
    """What one encoder gained over another on the same test items.

    Attributes:
        by_seed: (seed,) gain of each seed.
        resampled: (resample,) mean gain over the seeds in each bootstrap resample of the items.
        items: number of test items.
    """

    by_seed: FloatArray
    resampled: FloatArray
    items: int

    def test(self) -> Gain:
        """Interval and p-value for other seeds and other items (the module's docstring)."""
        mean, seeds = float(self.by_seed.mean()), len(self.by_seed)
        sd = float(self.by_seed.std(ddof=1)) if seeds > 1 else None
        from_seeds = 0.0 if sd is None else sd**2 / seeds
        variance = from_seeds + float(self.resampled.var(ddof=1))
        if variance == 0.0:  # every item and every seed gained the same
            return Gain(mean, sd, seeds, self.items, mean, mean, float(mean == 0.0))
        share, error = from_seeds / variance, math.sqrt(variance)

        def critical(p: float) -> float:
            of_seeds = stats.t.isf(p / 2, max(1, seeds - 1))
            return float(share * of_seeds + (1 - share) * stats.norm.isf(p / 2))

        margin = critical(1 - CONFIDENCE) * error

        def excess(log_p: float) -> float:
            return critical(10.0**log_p) - abs(mean) / error

        far = excess(_SMALLEST_LOG_P) <= 0
        log_p = _SMALLEST_LOG_P if far else optimize.brentq(excess, _SMALLEST_LOG_P, 0.0)
        return Gain(mean, sd, seeds, self.items, mean - margin, mean + margin, 10.0**log_p)


@dataclass(frozen=True)
class Sampled:
    """Scores of one encoder on test items, and on bootstrap resamples of them.

    Attributes:
        by_seed: (seed,) score of each seed; a start has one.
        resampled: (seed, resample) the same in each resample; encoders that are compared share the
            resamples.
        items: number of test items.
    """

    by_seed: FloatArray
    resampled: FloatArray
    items: int

    def over(self, start: Sampled) -> Gains:
        """The gains over an encoder that has one score."""
        # Seed by seed, so that no gain at all comes to exactly zero.
        gains = (self.resampled - start.resampled).mean(axis=0)
        return Gains(self.by_seed - start.by_seed, gains, self.items)


def sample_means(rows: Mapping[str, FloatArray]) -> dict[str, Sampled]:
    """Means of per-item scores, such as reciprocal ranks.

    Args:
        rows: encoder -> (seed, item) scores, all of the same items.

    Raises:
        ValueError: shapes that do not fit, or fewer than two items.
    """
    _require_fit(list(rows.values()))
    resampled = resampled_means(np.concatenate(list(rows.values())), RESAMPLES, _SEED)
    parts = np.split(resampled, np.cumsum([len(values) for values in rows.values()])[:-1])
    return {
        name: Sampled(values.mean(1), part, values.shape[1])
        for (name, values), part in zip(rows.items(), parts, strict=True)
    }


def sample_spearmans(
    rows: Mapping[str, Mapping[str, FloatArray]],
    gold: Mapping[str, FloatArray],
    ids: Mapping[str, NDArray[np.int64]],
) -> dict[str, dict[str, Sampled]]:
    """Spearman's correlations of cosines with gold scores, set by set, and their plain mean.

    Args:
        rows: encoder -> set -> (seed, pair) cosines.
        gold: set -> (pair,).
        ids: set -> (pair,) a number for each pair; equal in all sets that have it.

    Returns:
        Encoder -> set -> scores, and under "Avg" the mean over the sets.

    Raises:
        ValueError: shapes that do not fit, or fewer than two pairs.
    """
    sets = {}
    for column, scores in gold.items():
        cosines_of_encoders = [cosines[column] for cosines in rows.values()]
        _require_fit([*cosines_of_encoders, scores[None]])
        sets[column] = PairSet(np.concatenate(cosines_of_encoders), scores, ids[column])
    resampled = resampled_spearmans(list(sets.values()), RESAMPLES, _SEED)
    ends = np.cumsum([len(next(iter(cosines.values()))) for cosines in rows.values()])[:-1]
    sampled: dict[str, dict[str, Sampled]] = {name: {} for name in rows}
    for (column, pairs), drawn in zip(sets.items(), resampled, strict=True):
        by_seed = np.array([spearman(cosines, pairs.gold) for cosines in pairs.columns])
        items = len(np.unique(pairs.ids))
        parts = zip(rows, np.split(by_seed, ends), np.split(drawn, ends), strict=True)
        for name, values, part in parts:
            sampled[name][column] = Sampled(values, part, items)
    items = len(np.unique(np.concatenate(list(ids.values()))))
    return {name: {**by_set, "Avg": _average(by_set, items)} for name, by_set in sampled.items()}


def _average(parts: Mapping[str, Sampled], items: int) -> Sampled:
    by_seed: FloatArray = np.mean([part.by_seed for part in parts.values()], axis=0)
    resampled: FloatArray = np.mean([part.resampled for part in parts.values()], axis=0)
    return Sampled(by_seed, resampled, items)


def _require_fit(rows: Sequence[FloatArray]) -> None:
    shapes = [row.shape for row in rows]
    if any(len(shape) != 2 for shape in shapes) or len({shape[1:] for shape in shapes}) != 1:
        raise ValueError(f"expected scores (seed, item) of the same items; got {shapes}")
    if shapes[0][1] < 2:
        raise ValueError(f"expected two or more items; got {shapes[0][1]}")
