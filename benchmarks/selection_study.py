"""docs/results/selection.md: which label-free measurement finds the checkpoint to keep?

    python benchmarks/selection_study.py

Draws the page from selection.json. The script of commit 0278c521 measured it: four objectives,
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
from isospace.statistics.gains import FloatArray
from isospace.system.tables import markdown_table
from isospace.training.results import is_collapsed

PAGE = Path(__file__).parent.parent / "docs" / "results" / "selection.md"
RESULTS = PAGE.with_suffix(".json")
STARTS = {
    "docstrings": "docstrings, mean pooling",
    "mean": "English text, mean pooling",
    "cls": "English text, [CLS] pooling",
}
"""Base model and text -> column."""
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
    """Draw the table and the count of collapsed evaluations."""
    records = json.loads(RESULTS.read_text(encoding="utf-8"))
    over = {
        title: _over_last([record for record in records if record["cell"][0] == start])
        for start, title in STARTS.items()
    }
    rows = [
        {"rule": name, **{title: own[name] for title, own in over.items()}}
        for name in ("best", *CRITERIA)
    ]
    draw(PAGE, {"rules": markdown_table(rows), "collapsed": _collapsed(records)})


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


def _over_last(records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the points by which each rule's pick is above the last evaluation."""
    reached = {
        name: np.array([r["averages"][str(_pick(r["evaluations"], rule))] for r in records])
        for name, rule in RULES.items()
    }
    return {name: _with_interval(records, own - reached["last"]) for name, own in reached.items()}


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
