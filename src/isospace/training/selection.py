"""Selection of a checkpoint: by labels, without labels, or the last.

**label-free** (the default). Every evaluation measures text that is not trained on. Where the
corpus has natural pairs (a docstring's summary and its next paragraph, anchor and positive), the
criterion is their retrieval: all are encoded clean, each first text ranks all second texts by
cosine, and

    MRR = mean_i 1 / (rank of its own second text).

Like a contrastive loss it asks that what belongs together lies close and all else lies far; unlike
the training loss its two sides are different texts, so that it cannot be raised by growing
insensitive to dropout, and unlike a loss it does not move with the spread of the cosines alone.
The base model is one of the evaluations: it is kept where nothing beats it (but by adapt, where
the best of the others is merged with it).

Where the corpus has none, the last evaluation is kept: neither the halves of sentences nor any
other measurement without labels was found to choose better (docs/results/selection.md).

In both cases an evaluation is set aside as collapsed where the effective rank has fallen below half
of the base model's, or where a sentence's ten nearest neighbours keep less than a tenth of the base
model's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isospace.config import Rule
from isospace.statistics import choosing

PAIRS, LABELS, LAST = "pairs_mrr", "labels_spearman", "step"
"""Measurements of which a rule keeps the highest."""

SMALLEST_RANK_SHARE = 0.5
SMALLEST_NEIGHBOUR_OVERLAP = 0.1


@dataclass(frozen=True)
class Choice:
    """The evaluation that is kept.

    Attributes:
        step: the optimiser step of the evaluation; 0 is the base model.
        rule: how it was chosen.
        criterion: name of the measurement that decided.
        value: its value at the evaluation kept.
        base_value: its value for the base model.
        collapsed: steps of evaluations that have collapsed, which the label-free rule sets aside.
        reason: one sentence for people.
    """

    step: int
    rule: Rule
    criterion: str
    value: float
    base_value: float
    collapsed: tuple[int, ...]
    reason: str


def is_collapsed(evaluation: Mapping[str, float], start: Mapping[str, float]) -> bool:
    """Return true if a space has degenerated against the base model's (see the module)."""
    return not (
        evaluation["effective_rank"] >= SMALLEST_RANK_SHARE * start["effective_rank"]
        and evaluation["neighbour_overlap"] >= SMALLEST_NEIGHBOUR_OVERLAP
    )


def choose(
    evaluations: Sequence[Mapping[str, float]],
    rule: Rule,
    natural_pairs: bool,
    start_competes: bool = True,
) -> Choice:
    """Pick an evaluation.

    Args:
        evaluations: in order of step, the first the base model (step 0).
        rule: by which.
        natural_pairs: whether their pairs_mrr is of pairs that the corpus brought along.
        start_competes: whether the base model is picked where no other is better, and not only
            where all others are set aside.

    >>> start = {"step": 0, "pairs_mrr": 0.4, "effective_rank": 90.0, "neighbour_overlap": 1.0}
    >>> later = {"step": 9, "pairs_mrr": 0.3, "effective_rank": 95.0, "neighbour_overlap": 0.7}
    >>> [choose([start, later], "label-free", natural).step for natural in (True, False)]
    [0, 9]
    """
    criterion = {"labels": LABELS, "last": LAST}.get(rule, PAIRS if natural_pairs else LAST)
    start = evaluations[0]
    collapsed = tuple(
        int(evaluation["step"]) for evaluation in evaluations[1:] if is_collapsed(evaluation, start)
    )

    usable = [
        evaluation
        for evaluation in evaluations[1:]
        if math.isfinite(evaluation[criterion])
        and (rule != "label-free" or int(evaluation["step"]) not in collapsed)
    ]
    if start_competes or not usable:
        usable.insert(0, start)
    kept = usable[choosing.choose([evaluation[criterion] for evaluation in usable])]
    reason = _reason(kept, start, rule, criterion, collapsed, start_competes)
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


def _reason(
    kept: Mapping[str, float],
    start: Mapping[str, float],
    rule: Rule,
    criterion: str,
    collapsed: Sequence[int],
    start_competes: bool,
) -> str:
    step = int(kept["step"])
    if step == 0 and not start_competes:
        return (
            "every checkpoint has collapsed"
            if collapsed
            else "it ended before its first checkpoint"
        )
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
        return f"no checkpoint{which} beats the base model by {criterion} ({start[criterion]:.4f})"
    return (
        f"step {step} has the best {criterion}: {kept[criterion]:.4f}, "
        f"base model {start[criterion]:.4f}"
    )
