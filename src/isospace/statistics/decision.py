"""Tests of all pairs of rows of a comparison, corrected for their number.

Source: Holm 1979, Scandinavian Journal of Statistics 6.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from isospace.statistics.gains import CONFIDENCE, Gain, gain
from isospace.statistics.influence import Scores
from isospace.statistics.verdict import SMALLEST_GAIN

_Key = TypeVar("_Key", bound=Hashable)


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
    gains = {(ahead, behind): gain(rows[ahead], rows[behind]) for ahead, behind in pairs}
    adjusted = holm({pair: found.p for pair, found in gains.items()})
    ordered = sorted(gains, key=lambda pair: -gains[pair].mean)
    return tuple(Difference(*pair, gains[pair], adjusted[pair]) for pair in ordered)
