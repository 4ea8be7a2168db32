"""Several seeds, several encoders: which gains would hold for other seeds and other test items?

A gain measured by `s` seeds on `n` items varies with both. With seeds and items as crossed random
effects the variance of the mean gain is, up to their interaction,

    SE^2 = SE_seeds^2 + SE_items^2,   SE_seeds = sd(gain per seed) / sqrt(s),
    SE_items = sd of the mean gain over bootstrap resamples of the items,

and gain / SE follows Student's t with Satterthwaite's degrees of freedom, which are those of the
seeds (s - 1) where the seeds are what varies. The interaction enters twice, so that the test errs
on the side of no difference. With one seed only the items can be judged.
Sources: Satterthwaite 1946; Welch 1947; Holm 1979; Efron & Tibshirani 1993, chapter 13.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

from isospace.evaluation.correlation import FloatArray, spearman
from isospace.evaluation.statistics import (
    CONFIDENCE,
    RESAMPLES,
    SMALLEST_GAIN,
    resampled_means,
    resampled_spearmans,
)


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

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True)
class Gains:
    """What one encoder gained over the start on one set of test items.

    Attributes:
        by_seed: (seed,) gain of each seed.
        resampled: (resample,) mean gain over the seeds in each bootstrap resample of the items.
        items: number of test items.
    """

    by_seed: FloatArray
    resampled: FloatArray
    items: int

    @classmethod
    def of_means(cls, before: FloatArray, after: FloatArray, seed: int = 0) -> Gains:
        """Gains of the mean of per-item scores, such as reciprocal ranks.

        Args:
            before: (item,) scores under the start.
            after: (seed, item) scores under the encoder that each seed gave.
            seed: of the resampling; equal for encoders that are compared.

        Raises:
            ValueError: shapes that do not fit, or fewer than two items.
        """
        _require_fit(before, after)
        differences = after - before
        resampled = resampled_means(differences.mean(0), RESAMPLES, seed)
        return cls(differences.mean(1), resampled, len(before))

    @classmethod
    def of_spearman(
        cls, before: FloatArray, after: FloatArray, gold: FloatArray, seed: int = 0
    ) -> Gains:
        """Gains of Spearman's correlation of cosines with gold scores.

        Args:
            before: (pair,) cosines under the start.
            after: (seed, pair) cosines under the encoder that each seed gave.
            gold: (pair,).
            seed: of the resampling; equal for encoders that are compared.

        Raises:
            ValueError: shapes that do not fit, or fewer than two pairs.
        """
        _require_fit(before, after)
        columns = [before, *after]
        values = np.array([spearman(column, gold) for column in columns])
        start, *others = resampled_spearmans(columns, gold, RESAMPLES, seed)
        return cls(values[1:] - values[0], np.mean(others, axis=0) - start, len(gold))

    @classmethod
    def average(cls, parts: Sequence[Gains]) -> Gains:
        """Gain of the plain mean over sets of items, each resampled by a seed of its own."""
        by_seed: FloatArray = np.mean([part.by_seed for part in parts], axis=0)
        resampled: FloatArray = np.mean([part.resampled for part in parts], axis=0)
        return cls(by_seed, resampled, sum(part.items for part in parts))

    def test(self) -> Gain:
        """Interval and p-value for other seeds and other items (the module's docstring)."""
        mean, seeds = float(self.by_seed.mean()), len(self.by_seed)
        sd = float(self.by_seed.std(ddof=1)) if seeds > 1 else None
        from_seeds = 0.0 if sd is None else sd**2 / seeds
        variance = from_seeds + float(self.resampled.var(ddof=1))
        if variance == 0.0:  # every item and every seed gained the same
            return Gain(mean, sd, seeds, self.items, mean, mean, float(mean == 0.0))
        # Resampled items count as known exactly, the seeds as what they are: few.
        freedom = variance**2 * (seeds - 1) / from_seeds**2 if from_seeds else np.inf
        error, t = variance**0.5, stats.t(min(freedom, 1e6))
        margin = float(t.ppf((1 + CONFIDENCE) / 2)) * error
        p = float(2 * t.sf(abs(mean) / error))
        return Gain(mean, sd, seeds, self.items, mean - margin, mean + margin, p)


def _require_fit(before: FloatArray, after: FloatArray) -> None:
    if before.ndim != 1 or after.ndim != 2 or after.shape[1] != len(before) or len(before) < 2:
        raise ValueError(
            f"expected scores (item,) and (seed, item) of the same two or more items; got "
            f"{before.shape} and {after.shape}"
        )


def welch(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Two-sided p of Welch's t-test between the scores of two sets of seeds.

    `None` where there are fewer than two seeds in each, or no spread to compare with.
    """
    rounding = 1e-9 * np.abs([*first, *second]).max()
    if min(len(first), len(second)) < 2 or np.ptp(first) + np.ptp(second) <= rounding:
        return None
    about = [(np.mean(x), np.std(x, ddof=1), len(x)) for x in (first, second)]
    # Given the samples, scipy warns of one whose seeds all came to the same.
    return float(stats.ttest_ind_from_stats(*about[0], *about[1], equal_var=False).pvalue)


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values: below alpha for any is wrong with probability alpha at most.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    adjusted, highest = dict(p), 0.0
    for place, name in enumerate(sorted(p, key=lambda name: p[name])):
        highest = max(highest, min(1.0, (len(p) - place) * p[name]))
        adjusted[name] = highest
    return adjusted


@dataclass(frozen=True)
class Decision:
    """What a comparison of several encoders with their start says.

    Attributes:
        verdict: "adapt with NAME", "take NAME" (another start), "no difference worth having" or
            "keep the start".
        name: the one that is advised, if any.
        text: one sentence for people.
        adjusted: Holm's p-value of each gain.
    """

    verdict: str
    name: str | None
    text: str
    adjusted: dict[str, float]


def decide(
    gains: Mapping[str, Gain],
    criterion: Mapping[str, float],
    protocol: str,
    judged_by: str = "criterion",
    over_own: Mapping[str, Gain] | None = None,
    unadapted: Collection[str] = (),
) -> Decision:
    """Choose among encoders that were all compared with the start.

    One is advised where its gain is at least `SMALLEST_GAIN` and, after Holm's correction over all
    comparisons, significant at 5 %; one that began elsewhere must gain as much over its own start.
    Among several such the criterion decides, which was measured on other text: the best of several
    test scores would flatter itself.

    Args:
        gains: of every encoder on the test items.
        criterion: of every encoder, higher is better, not from the test items.
        protocol: how the scores were made, for the sentence.
        judged_by: what the criterion is, for the sentence.
        over_own: gains of those that began elsewhere over what they began with.
        unadapted: those of the encoders that are starts themselves.
    """
    adjusted = holm({name: gain.p for name, gain in gains.items()})
    alpha, own = 1 - CONFIDENCE, over_own or {}

    def good(name: str) -> bool:
        found = [(gains[name].mean, adjusted[name])]
        found += [(own[name].mean, own[name].p)] if name in own else []
        return all(mean >= SMALLEST_GAIN and p < alpha for mean, p in found)

    nearest = max(gains, key=lambda name: gains[name].mean)
    if chosen := list(filter(good, gains)):
        name = max(chosen, key=lambda name: criterion[name])
        adapted = name not in unadapted
        verdict = f"adapt with {name}" if adapted else f"take {name}"
        advice = f"Adapt with {name}" if adapted else f"Take {name} as it is"
        text = f"{advice}: {_points(gains[name])} in {protocol}; {_correction(gains)}"
        if len(chosen) > 1:
            text += f"; of {len(chosen)} that gain enough it has the highest {judged_by}"
        text += "."
        return Decision(verdict, name, text, adjusted)
    if all(gain.low == gain.high == 0.0 for gain in gains.values()):
        text = f"Keep the start: every run preferred it to its checkpoints; {protocol}."
    elif all(adjusted[name] < alpha and gain.mean < 0 for name, gain in gains.items()):
        text = f"Keep the start: every encoder is worse; nearest {nearest}, "
        text += f"{_points(gains[nearest])} in {protocol}; {_correction(gains)}."
    else:
        text = f"No difference worth having: the largest gain is {nearest}'s, "
        text += f"{_points(gains[nearest])} in {protocol}; asked for are {100 * SMALLEST_GAIN:.2f} "
        text += f"points that are significant, {_correction(gains)}."
        return Decision("no difference worth having", None, text, adjusted)
    return Decision("keep the start", None, text, adjusted)


def _points(gain: Gain) -> str:
    seeds = "one seed" if gain.seeds == 1 else f"{gain.seeds} seeds"
    return (
        f"{100 * gain.mean:+.2f} points (95 % interval {100 * gain.low:+.2f} to "
        f"{100 * gain.high:+.2f}; {seeds}, {gain.items:,} items)"
    )


def _correction(gains: Mapping[str, Gain]) -> str:
    count = len(gains)
    return "one comparison" if count == 1 else f"Holm's correction over {count} comparisons"
