"""Verdicts on a gain over the base model, the gains that items can show, and tests of all rows.

Rows of a comparison are tested in pairs, and corrected for the number of pairs (Holm 1979,
Scandinavian Journal of Statistics 6).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations
from typing import TypeVar

import numpy as np
from scipy import stats

from isospace.errors import number_of
from isospace.statistics.gains import (
    CONFIDENCE,
    FEWEST_GROUPS,
    Gain,
    Scores,
    gain as gain_of,
    standard_error,
)

_Key = TypeVar("_Key", bound=Hashable)

SMALLEST_GAIN = 0.01
"""The smallest gain worth having: by convention one point of 100, because a smaller gain seldom
justifies another model to keep and new vectors for all texts."""
POWER = 0.8
"""The power of the test for which a number of items is advised."""
GAIN_ERROR_SHARE = 0.5
"""Ratio of a gain's standard error to that of the base model's score, if it cannot be measured;
docs/results/placebo.md has it for real gains."""


class VerdictKind(str, Enum):
    """Four possible verdicts on a gain over the base model."""

    ADAPTED = "adapted"
    TOO_SMALL = "no gain worth having"
    CANNOT_TELL = "cannot tell"
    KEEP_BASE = "keep the base model"


@dataclass(frozen=True)
class Verdict:
    """A verdict in one word and in one sentence."""

    kind: VerdictKind
    text: str
    protocol: str
    gain: Gain | None


def kind_of(gain: Gain) -> VerdictKind:
    """Return the kind of verdict on a gain over the base model.

    - "keep the base model": the interval lies below zero;
    - "no gain worth having": the interval lies below `SMALLEST_GAIN`;
    - "adapted": the interval lies above zero, the gain is `SMALLEST_GAIN` or more, and
      `FEWEST_GROUPS` or more groups of items changed;
    - "cannot tell": all other gains.
    """
    if gain.high < 0:
        return VerdictKind.KEEP_BASE
    if gain.high < SMALLEST_GAIN:
        return VerdictKind.TOO_SMALL
    enough = gain.changed_groups >= FEWEST_GROUPS
    if gain.low > 0 and gain.mean >= SMALLEST_GAIN and enough:
        return VerdictKind.ADAPTED
    return VerdictKind.CANNOT_TELL


def verdict_of(gain: Gain, protocol: str, unit: str = "groups") -> Verdict:
    """Return the verdict on a gain; `unit` is the name of the groups of items."""
    kind = kind_of(gain)
    text = gain_sentence(f"{kind.value.capitalize()}: ", gain, protocol, counted(gain, unit))
    return Verdict(kind, text, protocol, gain)


def gain_sentence(head: str, gain: Gain, protocol: str, count: str) -> str:
    """Return `head`, the gain with its protocol and count of items, and what it leaves open."""
    return f"{head}{gain} in {protocol}; {count}{_left_open(gain)}."


def base_kept(reason: str, protocol: str, best: Gain | None = None) -> Verdict:
    """Return the verdict if nothing better than the base model was found.

    `best` is the gain of the best other candidate, if the same items selected.
    """
    tested = "no other model was tested by" if best is None else f"the best other: {best} in"
    text = f"{VerdictKind.KEEP_BASE.value.capitalize()}: {reason}; {tested} {protocol}."
    return Verdict(VerdictKind.KEEP_BASE, text, protocol, best)


def base_unless_adapted(verdict: Verdict) -> Verdict:
    """Return "keep the base model" for every verdict but "adapted"."""
    if verdict.kind in (VerdictKind.ADAPTED, VerdictKind.KEEP_BASE):
        return verdict
    kept, text = VerdictKind.KEEP_BASE, verdict.text
    return replace(
        verdict, kind=kept, text=f"{kept.value.capitalize()}: {text[0].lower()}{text[1:]}"
    )


def counted(gain: Gain, unit: str) -> str:
    """Count in words the pairs, their groups, and the changed pairs if not all changed."""
    groups = "" if gain.groups == gain.items else f" in {number_of(gain.groups, unit)}"
    changed = "" if gain.changed == gain.items else f", {gain.changed:,} changed"
    if not gain.changed:
        changed = ", none of them changed, as if nothing had been learnt"
    return f"{number_of(gain.items, 'pairs')}{groups}{changed}"


def _left_open(gain: Gain) -> str:
    """Return what the interval leaves open and what would decide it; "" for nothing."""
    kind, smallest = kind_of(gain), f"less than {100 * SMALLEST_GAIN:.2f}"
    if kind is VerdictKind.TOO_SMALL:
        return f"; {smallest}"
    if kind is VerdictKind.KEEP_BASE:
        return "; the result is worse"
    if kind is VerdictKind.CANNOT_TELL:
        if gain.low <= 0 and gain.seeds > 1:
            return "; more seeds or more pairs would tell"
        if gain.changed_groups < FEWEST_GROUPS:
            return f"; {number_of(gain.changed_groups, 'groups')} changed of {FEWEST_GROUPS} needed"
        if gain.low <= 0:
            # A gain without its selection bias may seem to need fewer pairs than there are.
            needed = pairs_needed(gain)
            return f"; about {rounded(needed)} pairs would tell" if needed > gain.items else ""
    return f"; beyond chance, maybe {smallest}" if gain.low < SMALLEST_GAIN else ""


def pairs_needed(gain: Gain) -> float:
    """Return the number of items that would decide with `POWER`, if the gain is the true gain.

    They show that the gain is above zero, or that a small one is below `SMALLEST_GAIN`. No number
    of items decides about a gain just below it, so the distance is half of `SMALLEST_GAIN` or more.
    """
    away = gain.mean if gain.mean >= SMALLEST_GAIN else SMALLEST_GAIN - gain.mean
    ahead = stats.norm.isf((1 - CONFIDENCE) / 2)
    shows = (gain.high - gain.low) / 2 * (1 + stats.norm.isf(1 - POWER) / ahead)
    return float(gain.items * (shows / max(away, SMALLEST_GAIN / 2)) ** 2)


def error_share(after: Scores, before: Scores) -> float:
    """Return the ratio of a gain's standard error to that of the score before."""
    error = standard_error(before)
    if not 0 < error < math.inf:
        return GAIN_ERROR_SHARE
    return standard_error(after, before) / error


def detectable_gain(
    base: Scores, unit: str = "groups", items: str = "pairs", share: float = GAIN_ERROR_SHARE
) -> str:
    """Return in words the gain that these items would show with `POWER`, before it is measured.

    The standard error of a gain is assumed to be `share` times that of the base model's score.
    """
    count, groups = len(base.groups), len(np.unique(base.groups))
    in_groups = "" if groups == count else f" in {number_of(groups, unit)}"
    these = f"these {count:,} {items}{in_groups}"
    if groups < FEWEST_GROUPS:
        return f"{these} are too few to show a gain; {FEWEST_GROUPS} {unit} or more can"
    freedom = max(1.0, base.effective_groups - 1)
    critical = stats.t.isf((1 - CONFIDENCE) / 2, freedom) + stats.t.isf(1 - POWER, freedom)
    points = 100 * critical * share * standard_error(base)
    return f"{these} can show gains from about {max(points, 100 * SMALLEST_GAIN):.1f} points"


def rounded(count: float) -> str:
    """Return a number of items rounded up to two digits."""
    size = 10 ** max(0, math.floor(math.log10(count)) - 1)
    return f"{math.ceil(count / size) * size:,}"


def holm(p: Mapping[_Key, float]) -> dict[_Key, float]:
    """Return Holm's adjusted p-values, which control the probability of any false finding.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    adjusted, highest = dict(p), 0.0
    for place, name in enumerate(sorted(p, key=lambda name: p[name])):
        highest = max(highest, min(1.0, (len(p) - place) * p[name]))
        adjusted[name] = highest
    return adjusted


@dataclass(frozen=True)
class Difference:
    """Gain of the row with the higher mean, with its p corrected for all pairs of rows."""

    ahead: str
    behind: str
    gain: Gain
    holm_p: float

    @property
    def shown(self) -> bool:
        """True if the corrected p shows that `ahead` is better."""
        return self.holm_p < 1 - CONFIDENCE

    @property
    def equivalent(self) -> bool:
        """True if the 95 % interval is within `SMALLEST_GAIN` of 0 (Schuirmann 1987, at 2.5 %)."""
        return self.gain.low > -SMALLEST_GAIN and self.gain.high < SMALLEST_GAIN


def differences(rows: Mapping[str, Scores]) -> tuple[Difference, ...]:
    """Compare every pair of rows in one score, largest difference first."""
    pairs = [(a, b) if rows[a].mean >= rows[b].mean else (b, a) for a, b in combinations(rows, 2)]
    gains = {(ahead, behind): gain_of(rows[ahead], rows[behind]) for ahead, behind in pairs}
    adjusted = holm({pair: found.p for pair, found in gains.items()})
    ordered = sorted(gains, key=lambda pair: -gains[pair].mean)
    return tuple(Difference(*pair, gains[pair], adjusted[pair]) for pair in ordered)
