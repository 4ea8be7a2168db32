"""docs/results/selection.md: which label-free measurement finds the checkpoint to keep?

    python benchmarks/selection_study.py

Draws the tables from selection.json. The script of commit 0278c521 measured it: four objectives,
three seeds and sixteen evaluations a run, from three base models. An evaluation has what
label-free selection may use, and the score that it should predict. "averages" are the STS averages
(on docstrings the MRR of the test pairs) of the checkpoints that a rule picks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import draw
from isospace.statistics.influence import FloatArray
from isospace.training.selection import is_collapsed

PAGE = Path(__file__).parent.parent / "docs" / "results" / "selection.md"
RESULTS = PAGE.with_suffix(".json")
STARTS = ("mean", "cls", "docstrings")
OBJECTIVES = ("simcse", "whitenedcse", "simcse++", "iso")

Evaluation = dict[str, float]
CRITERIA: dict[str, Callable[[Evaluation], float]] = {
    "MRR of pairs (high)": lambda evaluation: evaluation["pairs_mrr"],
    "loss of pairs (low)": lambda evaluation: -evaluation["pairs_loss"],
    "alignment (low)": lambda evaluation: -evaluation["alignment"],
    "uniformity (low)": lambda evaluation: -evaluation["uniformity"],
    "alignment + uniformity (low)": lambda evaluation: (
        -evaluation["alignment"] - evaluation["uniformity"]
    ),
    "effective rank (high)": lambda evaluation: evaluation["effective_rank"],
    "mean cosine (low)": lambda evaluation: -evaluation["mean_cosine"],
    "overlap of neighbours (low)": lambda evaluation: -evaluation["neighbour_overlap"],
}
RULES: dict[str, Callable[[Evaluation], float]] = {
    "best": lambda evaluation: evaluation.get("test_mrr", evaluation.get("labels_spearman", 0.0)),
    "last": lambda evaluation: evaluation["step"],
    **CRITERIA,
}
"""Rules that select a checkpoint. "best" reads the score to predict, so no user can apply it."""


def main() -> None:
    """Draw the tables."""
    records = json.loads(RESULTS.read_text(encoding="utf-8"))
    parts = {}
    for start in STARTS:
        mine = [record for record in records if record["cell"][0] == start]
        parts[f"rules {start}"] = _rules(mine)
    parts["collapsed"] = _collapsed(records)
    draw(PAGE, parts)


def _pick(evaluations: Sequence[Evaluation], rule: Callable[[Evaluation], float]) -> int:
    """The step that a rule keeps; the base model is one of the evaluations."""
    return int(max(evaluations, key=rule)["step"])


def _collapsed(records: Sequence[dict[str, Any]]) -> str:
    """Return how many evaluations `--select label-free` refuses as collapsed."""
    count = sum(
        is_collapsed(evaluation, r["evaluations"][0])
        for r in records
        for evaluation in r["evaluations"][1:]
    )
    evaluations = sum(len(record["evaluations"]) - 1 for record in records)
    runs = len(records)
    return f"{count} of {evaluations} evaluations in {runs} runs are collapsed by that guard.\n"


def _rules(records: Sequence[dict[str, Any]]) -> str:
    """Draw a line for each rule.

    Kendall's tau between the criterion and the score, over the evaluations of a run; points by
    which the rule's pick is below the best and below the last evaluation.
    """
    lines = ["| rule | tau | below best | below last |", "|---|---|---|---|"]
    reached = {
        name: np.array([r["averages"][str(_pick(r["evaluations"], rule))] for r in records])
        for name, rule in RULES.items()
    }
    for name in ("last", *CRITERIA):
        tau = ""
        if name in CRITERIA:
            taus = [_kendall(record["evaluations"], CRITERIA[name]) for record in records]
            tau = _with_interval(records, np.array(taus)).split()[0]
        below = [
            _with_interval(records, reached[other] - reached[name]) for other in ("best", "last")
        ]
        lines.append("| " + " | ".join([name, tau, below[0], below[1] * (name != "last")]) + " |")
    return "\n".join(lines) + "\n"


def _kendall(evaluations: Sequence[Evaluation], criterion: Callable[[Evaluation], float]) -> float:
    from scipy.stats import kendalltau

    tau = kendalltau(
        [criterion(x) for x in evaluations], [RULES["best"](x) for x in evaluations]
    ).statistic
    return 0.0 if np.isnan(tau) else float(tau)  # a criterion that never changes knows nothing


def _means(records: Sequence[dict[str, Any]], values: FloatArray) -> dict[str, float]:
    """Mean of each objective's runs.

    Runs that differ in their seed alone are nearly one run; twelve are not twelve witnesses.
    """
    names = np.array([record["cell"][1] for record in records])
    return {name: float(values[names == name].mean()) for name in OBJECTIVES if name in names}


def _with_interval(records: Sequence[dict[str, Any]], values: FloatArray) -> str:
    means = list(_means(records, values).values())
    low, high = interval(means)
    return f"{np.mean(means):+.2f} ({low:+.2f} to {high:+.2f})"


def interval(means: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of a few objectives' means: Student's t.

    A bootstrap of four is too narrow: of normal values it misses the mean in one case of five.
    """
    from scipy.stats import t

    if len(means) == 1:
        return -math.inf, math.inf
    half = t.ppf(0.975, len(means) - 1) * np.std(means, ddof=1) / math.sqrt(len(means))
    return float(np.mean(means) - half), float(np.mean(means) + half)


if __name__ == "__main__":
    main()
