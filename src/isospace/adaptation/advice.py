"""Advice after a verdict without a clear answer: the number of documents or pairs to add."""

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
"""Fewest own pairs that are advised: with fewer, hardly `FEWEST_GROUPS` groups change."""


def advice(verdict: Verdict, unit: str, before: Scores, after: Scores) -> str:
    """Return advice on data for a clearer verdict; empty if the verdict is clear.

    Args:
        verdict: the verdict on base model and adapted model.
        unit: name for the groups of pairs, in the plural.
        before: scores of the base model on the pairs.
        after: scores of the adapted model on the pairs.
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
