"""Selection of a checkpoint: by labels, without labels, or the last.

**label-free** (the default). Every evaluation measures held-out text. If the corpus has natural
pairs (a docstring's summary and its next paragraph, or anchor and positive), the criterion is their
retrieval: all texts are encoded without dropout, each first text ranks all second texts by cosine,
and

    MRR = mean_i 1 / (rank of its own second text).

Like a contrastive loss, MRR rewards vectors of related texts that are close and others that are
far. Unlike the training loss, it compares different texts, so a model cannot raise it by ignoring
dropout. Unlike a loss, it does not depend on the spread of the cosines. The base model is one of
the evaluations and is kept if no other is better (in `adapt` the best of the others is kept, to be
merged with it).

Without natural pairs the last evaluation is kept. Neither halves of sentences nor any other
label-free measurement selected better (docs/results/selection.md).

In both cases, collapsed evaluations are set aside: those whose effective rank is below half of the
base model's, or whose sentences keep less than a tenth of their ten nearest neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isospace.config import Rule
from isospace.statistics import selection

PAIRS, LABELS, LAST = "pairs_mrr", "labels_spearman", "step"
"""Names of the measurements that select; the highest is kept."""

SMALLEST_RANK_SHARE = 0.5
SMALLEST_NEIGHBOUR_OVERLAP = 0.1


@dataclass(frozen=True)
class Choice:
    """The checkpoint that is kept, and the reason for people.

    Attributes:
        step: the optimiser step of the checkpoint; 0 is the base model.
        criterion: name of the measurement that selected it.
        collapsed: steps of collapsed evaluations, which the label-free rule sets aside.
    """

    step: int
    rule: Rule
    criterion: str
    collapsed: tuple[int, ...]
    reason: str


def is_collapsed(evaluation: Mapping[str, float], base: Mapping[str, float]) -> bool:
    """Return true if the space has collapsed, compared with the base model's (see the module)."""
    return not (
        evaluation["effective_rank"] >= SMALLEST_RANK_SHARE * base["effective_rank"]
        and evaluation["neighbour_overlap"] >= SMALLEST_NEIGHBOUR_OVERLAP
    )


def select_checkpoint(
    evaluations: Sequence[Mapping[str, float]],
    rule: Rule,
    natural_pairs: bool,
    base_competes: bool = True,
) -> Choice:
    """Select an evaluation.

    Args:
        evaluations: in order of their steps; the first is the base model (step 0).
        rule: the setting `select`.
        natural_pairs: true if their pairs_mrr is measured on pairs of the corpus, and not on
            halves of sentences.
        base_competes: select the base model if no other is better; if false, only if all others
            are set aside.

    >>> base = {"step": 0, "pairs_mrr": 0.4, "effective_rank": 90.0, "neighbour_overlap": 1.0}
    >>> later = {"step": 9, "pairs_mrr": 0.3, "effective_rank": 95.0, "neighbour_overlap": 0.7}
    >>> [select_checkpoint([base, later], "label-free", natural).step for natural in (True, False)]
    [0, 9]
    """
    criterion = {"labels": LABELS, "last": LAST}.get(rule, PAIRS if natural_pairs else LAST)
    base = evaluations[0]
    collapsed = tuple(
        int(evaluation["step"]) for evaluation in evaluations[1:] if is_collapsed(evaluation, base)
    )

    usable = [
        evaluation
        for evaluation in evaluations[1:]
        if math.isfinite(evaluation[criterion])
        and (rule != "label-free" or int(evaluation["step"]) not in collapsed)
    ]
    if base_competes or not usable:
        usable.insert(0, base)
    kept = usable[selection.best_position([evaluation[criterion] for evaluation in usable])]
    reason = _reason(kept, base, rule, criterion, base_competes)
    if collapsed:
        reason += f"; collapsed at steps {', '.join(map(str, collapsed))}"
    return Choice(int(kept["step"]), rule, criterion, collapsed, reason)


def _reason(
    kept: Mapping[str, float],
    base: Mapping[str, float],
    rule: Rule,
    criterion: str,
    base_competes: bool,
) -> str:
    step = int(kept["step"])
    if step == 0 and (criterion == LAST or not base_competes):
        return "every checkpoint has collapsed, or none was reached"
    if step == 0:
        return f"no checkpoint beats the base model by {criterion} ({base[criterion]:.4f})"
    if criterion == LAST:
        why = "" if rule == "last" else ", because the corpus has no natural pairs"
        return f"the last checkpoint (step {step}){why}"
    return (
        f"step {step} has the best {criterion}: {kept[criterion]:.4f}, "
        f"base model {base[criterion]:.4f}"
    )
