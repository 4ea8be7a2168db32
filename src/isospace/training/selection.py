"""Which checkpoint to keep: by labels, without labels, or the last. Pure decisions over numbers.

**label-free** (the default). Every look measures text that is not trained on. Where the corpus has
natural pairs (a docstring's summary and its next paragraph, anchor and positive), the criterion is
their retrieval: all are encoded clean, each first text ranks all second texts by cosine, and

    MRR = mean_i 1 / (rank of its own second text).

Like a contrastive loss it asks that what belongs together lies close and all else lies far; unlike
the training loss its two sides are different texts, so that it cannot be raised by growing
insensitive to dropout, and unlike a loss it does not move with the spread of the cosines alone. The
start is one of the looks: it is kept where nothing beats it.

Where the corpus has none, the last look is kept: neither the halves of sentences nor any other
measurement without labels was found to choose better (docs/results/selection.md).

In both cases a look is set aside as collapsed where the effective rank has fallen below half of the
start's, or where a sentence's ten nearest neighbours keep less than a tenth of the start's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isospace.config import Rule

PAIRS, LABELS, LAST = "pairs_mrr", "labels_spearman", "step"
"""Measurements of which a rule keeps the highest."""

SMALLEST_RANK_SHARE = 0.5
SMALLEST_NEIGHBOUR_OVERLAP = 0.1


@dataclass(frozen=True)
class Choice:
    """The look that is kept.

    Attributes:
        step: the optimiser step of the look; 0 is the start.
        rule: how it was chosen.
        criterion: name of the measurement that decided.
        value: its value at the look kept.
        start_value: its value at the start.
        collapsed: steps of looks that have collapsed, which the label-free rule sets aside.
        reason: one sentence for people.
    """

    step: int
    rule: Rule
    criterion: str
    value: float
    start_value: float
    collapsed: tuple[int, ...]
    reason: str


def is_collapsed(look: Mapping[str, float], start: Mapping[str, float]) -> bool:
    """Whether a look's space has degenerated against the start's (see the module's docstring)."""
    return not (
        look["effective_rank"] >= SMALLEST_RANK_SHARE * start["effective_rank"]
        and look["neighbour_overlap"] >= SMALLEST_NEIGHBOUR_OVERLAP
    )


def choose(looks: Sequence[Mapping[str, float]], rule: Rule, natural_pairs: bool) -> Choice:
    """Pick a look.

    Args:
        looks: measurements in order of step; the first is the start (step 0).
        rule: "label-free", "labels" or "last".
        natural_pairs: pairs_mrr is of pairs that the corpus brought along.

    Raises:
        ValueError: no looks, or the criterion was not measured.

    >>> start = {"step": 0, "pairs_mrr": 0.4, "effective_rank": 90.0, "neighbour_overlap": 1.0}
    >>> later = {"step": 9, "pairs_mrr": 0.3, "effective_rank": 95.0, "neighbour_overlap": 0.7}
    >>> [choose([start, later], "label-free", natural).step for natural in (True, False)]
    [0, 9]
    """
    if not looks:
        raise ValueError("choose() needs at least the start's look")
    criterion = {"labels": LABELS, "last": LAST}.get(rule, PAIRS if natural_pairs else LAST)
    missing = [look.get("step") for look in looks if criterion not in look]
    if missing:
        raise ValueError(f"rule {rule!r} needs {criterion!r}, not measured at steps {missing}")
    start = looks[0]
    collapsed = tuple(int(look["step"]) for look in looks[1:] if is_collapsed(look, start))

    def key(look: Mapping[str, float]) -> float:
        usable = rule != "label-free" or int(look["step"]) not in collapsed
        return look[criterion] if usable and math.isfinite(look[criterion]) else -math.inf

    kept = max(looks, key=key)
    reason = _reason(kept, start, rule, criterion, collapsed)
    if collapsed:
        reason += f"; collapsed at steps {', '.join(map(str, collapsed))}"
    return Choice(
        int(kept["step"]),
        rule,
        criterion,
        float(kept[criterion]),
        float(start[criterion]),
        collapsed,
        reason,
    )


def kept(results: Mapping[str, Any]) -> str:
    """Which look the model folder of a finished run holds, and why."""
    reason = str(results["choice"]["reason"])
    if results["model_step"] == results["choice"]["step"]:
        return reason
    return f"the start, because of the verdict; by the rule it would be another: {reason}"


def _reason(
    kept: Mapping[str, float],
    start: Mapping[str, float],
    rule: Rule,
    criterion: str,
    collapsed: Sequence[int],
) -> str:
    step = int(kept["step"])
    if rule == "last":
        return f"the last checkpoint (step {step}), as asked"
    if criterion == LAST and step == 0:
        return "every checkpoint has collapsed"
    if criterion == LAST:
        which = (
            "last checkpoint that has not collapsed"
            if step < max(collapsed, default=0)
            else "last checkpoint"
        )
        return f"the {which} (step {step}), the corpus has no natural pairs to choose by"
    if step == 0:
        which = " that has not collapsed" if collapsed and rule == "label-free" else ""
        return f"no checkpoint{which} beats the start by {criterion} ({start[criterion]:.4f})"
    return (
        f"step {step} has the best {criterion}: {kept[criterion]:.4f}, start {start[criterion]:.4f}"
    )
