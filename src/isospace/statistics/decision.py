"""What a comparison of several encoders with their start says: corrected tests and a verdict.

Sources: Welch 1947; Holm 1979.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np
from scipy import stats

from isospace.statistics.bootstrap import CONFIDENCE, SMALLEST_GAIN
from isospace.statistics.gains import Gain

_Key = TypeVar("_Key", bound=Hashable)


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


def holm(p: Mapping[_Key, float]) -> dict[_Key, float]:
    """Holm's adjusted p-values: below alpha for any is wrong with probability alpha at most.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    adjusted, highest = dict(p), 0.0
    for place, name in enumerate(sorted(p, key=lambda name: p[name])):
        highest = max(highest, min(1.0, (len(p) - place) * p[name]))
        adjusted[name] = highest
    return adjusted


def against_best(scores: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Holm's p of Welch's test of each row against the row with the best mean.

    Corrected over all pairs of rows, for any of them could have come out best. Rows that cannot be
    tested (one seed, no spread) are left out, and so is the best one.

    `scores`: row -> score of each seed.
    """
    best = max(scores, key=lambda name: float(np.mean(scores[name])))
    tests = {(a, b): welch(scores[a], scores[b]) for a, b in combinations(scores, 2)}
    adjusted = holm({pair: p for pair, p in tests.items() if p is not None})
    return {(set(pair) - {best}).pop(): p for pair, p in adjusted.items() if best in pair}


@dataclass(frozen=True)
class Decision:
    """What a comparison of several encoders with their start says.

    Attributes:
        verdict: "adapt with NAME", "take NAME" (another start), "no difference worth having" or
            "keep the start".
        name: the one that is advised, if any.
        text: one sentence for people.
    """

    verdict: str
    name: str | None
    text: str


def decide(
    gains: Mapping[str, Gain],
    criterion: Mapping[str, float],
    protocol: str,
    judged_by: str = "criterion",
    over_own: Mapping[str, Gain] | None = None,
    unadapted: Collection[str] = (),
    start_kept: bool = False,
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
        start_kept: whether every run preferred its start to its checkpoints.
    """
    adjusted = holm({name: gain.p for name, gain in gains.items()})
    alpha, own = 1 - CONFIDENCE, over_own or {}

    def good(name: str) -> bool:
        tests = [(gains[name].mean, adjusted[name])]
        if name in own:
            tests.append((own[name].mean, own[name].p))
        return all(mean >= SMALLEST_GAIN and p < alpha for mean, p in tests)

    nearest = max(gains, key=lambda name: gains[name].mean)
    if chosen := list(filter(good, gains)):
        name = max(chosen, key=lambda name: criterion[name])
        adapted = name not in unadapted
        verdict = f"adapt with {name}" if adapted else f"take {name}"
        advice = f"Adapt with {name}" if adapted else f"Take {name} as it is"
        text = f"{advice}: {_points(gains[name])} in {protocol}; {_correction(gains)}"
        if len(chosen) > 1:
            text += f"; of {len(chosen)} that gain enough it has the highest {judged_by}"
        if name != nearest:
            text += f" ({nearest} gains most, {100 * gains[nearest].mean:+.2f})"
        text += "."
        return Decision(verdict, name, text)
    if start_kept:
        text = f"Keep the start: every run preferred its start to its checkpoints; {protocol}."
    elif all(adjusted[name] < alpha and gain.mean < 0 for name, gain in gains.items()):
        text = f"Keep the start: every encoder is worse; nearest {nearest}, "
        text += f"{_points(gains[nearest])} in {protocol}; {_correction(gains)}."
    else:
        text = f"No difference worth having: the largest gain is {nearest}'s, "
        text += f"{_points(gains[nearest])} in {protocol}; asked for are {100 * SMALLEST_GAIN:.2f} "
        text += f"points that are significant, {_correction(gains)}"
        if nearest in own:
            text += f", and as much over its own start, where it is {_points(own[nearest])}"
        text += "."
        return Decision("no difference worth having", None, text)
    return Decision("keep the start", None, text)


def _points(gain: Gain) -> str:
    seeds = "one seed" if gain.seeds == 1 else f"{gain.seeds} seeds"
    return (
        f"{100 * gain.mean:+.2f} points (95 % interval {100 * gain.low:+.2f} to "
        f"{100 * gain.high:+.2f}; {seeds}, {gain.items:,} items)"
    )


def _correction(gains: Mapping[str, Gain]) -> str:
    count = len(gains)
    return "one comparison" if count == 1 else f"Holm's correction over {count} comparisons"
