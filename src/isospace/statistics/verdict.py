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

from isospace.statistics.counts import number_of
from isospace.statistics.gains import CONFIDENCE, FEWEST_GROUPS, Gain, standard_error
from isospace.statistics.gains import gain as gain_of
from isospace.statistics.influence import Scores

_Key = TypeVar("_Key", bound=Hashable)

SMALLEST_GAIN = 0.01
"""The smallest gain worth having: one point of 100.

A judgement, not an estimate: less is seldom worth another model to keep and new vectors for all
texts, however sure it is.
"""

POWER = 0.8
"""The share of cases in which a gain should show, where numbers of items are advised."""

GAIN_ERROR_SHARE = 0.5
"""Standard error of a gain over that of the base model's score, before there is a gain.

docs/results/placebo.md has it for real gains.
"""


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

    - "keep the base model": its interval lies below zero;
    - "no gain worth having": its interval lies below `SMALLEST_GAIN`;
    - "adapted": its interval lies above zero, it is `SMALLEST_GAIN` or more itself, and
      `FEWEST_GROUPS` or more groups of items changed;
    - "cannot tell": all else.
    """
    if gain.high < 0:
        return VerdictKind.KEEP_BASE
    if gain.high < SMALLEST_GAIN:
        return VerdictKind.TOO_SMALL
    enough = gain.changed_groups >= FEWEST_GROUPS
    if gain.low > 0 and gain.mean >= SMALLEST_GAIN and enough:
        return VerdictKind.ADAPTED
    return VerdictKind.CANNOT_TELL


def judge(gain: Gain, protocol: str, unit: str = "groups") -> Verdict:
    """Say what a gain over the base model means.

    `unit` is what the groups of items are called.
    """
    kind = kind_of(gain)
    count = counted(gain, unit)
    text = f"{kind.value.capitalize()}: {gain} in {protocol}; {count}{reason(kind, gain)}."
    return Verdict(kind, text, protocol, gain)


def base_kept(reason: str, protocol: str, best: Gain | None = None) -> Verdict:
    """Return the verdict where nothing better than the base model was found.

    `best` is the gain of the best of the others, where the same items chose.
    """
    judged = "nothing to judge by" if best is None else f"the best other: {best} in"
    text = f"{VerdictKind.KEEP_BASE.value.capitalize()}: {reason}; {judged} {protocol}."
    return Verdict(VerdictKind.KEEP_BASE, text, protocol, best)


def base_unless_adapted(verdict: Verdict) -> Verdict:
    """Say "keep the base model" where no gain worth having is shown."""
    if verdict.kind in (VerdictKind.ADAPTED, VerdictKind.KEEP_BASE):
        return verdict
    kept, text = VerdictKind.KEEP_BASE, verdict.text
    return replace(
        verdict, kind=kept, text=f"{kept.value.capitalize()}: {text[0].lower()}{text[1:]}"
    )


def counted(gain: Gain, unit: str) -> str:
    """Say how many pairs there are, in how many groups, and how many changed if not all."""
    groups = "" if gain.groups == gain.items else f" in {number_of(gain.groups, unit)}"
    changed = "" if gain.changed == gain.items else f", {gain.changed:,} changed"
    if not gain.changed:
        changed = ", none of them changed, as if nothing had been learnt"
    return f"{number_of(gain.items, 'pairs')}{groups}{changed}"


def reason(kind: VerdictKind, gain: Gain) -> str:
    """Say what the interval leaves open, and what would tell; empty where nothing."""
    smallest = f"less than {100 * SMALLEST_GAIN:.2f}"
    if kind is VerdictKind.TOO_SMALL:
        return f"; {smallest}"
    if kind is VerdictKind.KEEP_BASE:
        return "; the result is worse"
    if kind is VerdictKind.CANNOT_TELL:
        if gain.changed_groups < FEWEST_GROUPS:
            return f"; {number_of(gain.changed_groups, 'groups')} changed of {FEWEST_GROUPS} needed"
        if gain.low <= 0:
            needed = pairs_needed(
                gain
            )  # an estimate less what choosing added may seem to need fewer
            return f"; about {rounded(needed)} pairs would tell" if needed > gain.items else ""
    return f"; beyond chance, maybe {smallest}" if gain.low < SMALLEST_GAIN else ""


def pairs_needed(gain: Gain) -> float:
    """Count the items that would decide in `POWER` of the cases, if the gain is what it seems.

    They show that a gain of `SMALLEST_GAIN` or more is above zero, or that a smaller one is below
    `SMALLEST_GAIN`. No number of items decides about a gain just below it; half of `SMALLEST_GAIN`
    stands for the distance there.
    """
    away = gain.mean if gain.mean >= SMALLEST_GAIN else SMALLEST_GAIN - gain.mean
    ahead = stats.norm.isf((1 - CONFIDENCE) / 2)
    shows = (gain.high - gain.low) / 2 * (1 + stats.norm.isf(1 - POWER) / ahead)
    return float(gain.items * (shows / max(away, SMALLEST_GAIN / 2)) ** 2)


def detectable_gain(base: Scores, unit: str = "groups", items: str = "pairs") -> str:
    """Say which gain these items would show in `POWER` of the cases, before there is one.

    The error of a gain is guessed from the base model's score by `GAIN_ERROR_SHARE`.
    """
    count, groups = len(base.groups), len(np.unique(base.groups))
    in_groups = "" if groups == count else f" in {number_of(groups, unit)}"
    these = f"these {count:,} {items}{in_groups}"
    if groups < FEWEST_GROUPS:
        return f"{these} are too few to show a gain; {FEWEST_GROUPS} {unit} or more can"
    freedom = max(1.0, base.effective_groups - 1)
    critical = stats.t.isf((1 - CONFIDENCE) / 2, freedom) + stats.t.isf(1 - POWER, freedom)
    points = 100 * critical * GAIN_ERROR_SHARE * standard_error(base)
    return f"{these} can show gains from about {max(points, 100 * SMALLEST_GAIN):.1f} points"


def rounded(count: float) -> str:
    """Round a number of items up to two digits."""
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
    """Difference of two rows of a comparison in one score.

    Attributes:
        ahead: name of the row with the higher mean.
        behind: name of the other row.
        gain: gain of `ahead` over `behind`.
        holm_p: p of the gain, corrected for all pairs of rows.
    """

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
        """True if the 95 % interval lies within plus and minus `SMALLEST_GAIN`.

        This equals two one-sided tests at 2.5 % (Schuirmann 1987).
        """
        return self.gain.low > -SMALLEST_GAIN and self.gain.high < SMALLEST_GAIN


def differences(rows: Mapping[str, Scores]) -> tuple[Difference, ...]:
    """Compare every pair of rows in one score, largest difference first."""
    pairs = [(a, b) if rows[a].mean >= rows[b].mean else (b, a) for a, b in combinations(rows, 2)]
    gains = {(ahead, behind): gain_of(rows[ahead], rows[behind]) for ahead, behind in pairs}
    adjusted = holm({pair: found.p for pair, found in gains.items()})
    ordered = sorted(gains, key=lambda pair: -gains[pair].mean)
    return tuple(Difference(*pair, gains[pair], adjusted[pair]) for pair in ordered)
