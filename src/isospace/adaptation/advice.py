"""Advice after a verdict that cannot tell: how many documents or pairs would be enough."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from isospace.statistics.gains import CONFIDENCE, FEWEST_GROUPS
from isospace.statistics.influence import Scores
from isospace.statistics.verdict import (
    POWER,
    SMALLEST_GAIN,
    Verdict,
    VerdictKind,
    pairs_needed,
    rounded,
)

FEWEST_OWN = 2 * FEWEST_GROUPS
"""Pairs of their own that are advised at least: of fewer hardly `FEWEST_GROUPS` change."""


def advice(verdict: Verdict, unit: str, before: Scores, after: Scores) -> str:
    """Say what would tell more than a verdict; empty where it tells enough.

    Args:
        verdict: on the two.
        unit: what the groups of pairs are called.
        before: the base model's score of the pairs.
        after: the adapted model's.
    """
    found = verdict.gain
    if verdict.kind is VerdictKind.ADAPTED or (found is not None and found.high < SMALLEST_GAIN):
        return ""
    difference = (after.values - before.values).mean(0)
    seen = SMALLEST_GAIN if found is None else max(abs(found.mean), SMALLEST_GAIN)
    both = stats.norm.isf((1 - CONFIDENCE) / 2) + stats.norm.isf(1 - POWER)
    own = max(FEWEST_OWN, (both * float(np.std(difference)) / seen) ** 2)
    pairs = f"about {rounded(own)} pairs of your own, a query and its answer a line (`pairs` FILE)"
    if found is None:
        pairs = f"{FEWEST_OWN} or more {pairs.partition(' ')[2].partition(' ')[2]}"
        return f"no candidate beats the base model on these pairs; more text may help, or {pairs}"
    groups = len(np.unique(before.groups))
    needed = groups * pairs_needed(found) / found.items
    if found.changed_groups < FEWEST_GROUPS:
        least = FEWEST_GROUPS * groups / max(1, found.changed_groups)
        needed = max(needed, min(least, FEWEST_GROUPS * groups))
    noun = "documents" if "documents" in unit else unit if groups < found.items else "pairs"
    more = f"about {rounded(math.ceil(needed))} {noun} like these {groups:,}"
    return f"to tell more, give {more}, or {pairs}"
