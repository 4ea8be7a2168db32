"""docs/results/selection.md: which label-free measurement finds the checkpoint to keep?

    python benchmarks/selection_study.py CORPUS STS_FOLDER [--jobs 2] [--work FOLDER]

Three tables, of four objectives and three seeds each; sixteen evaluations a run besides the base
model. Every evaluation measures what label-free selection may use, and the score that it should
predict: Spearman on STS-B dev from the mean and the [CLS] start, the MRR of test pairs on
docstrings. What a rule's pick is worth is the average of the seven STS sets, scored at the
checkpoints that some rule picks; on docstrings the MRR of the test pairs. Cells, resumption and
drawing as in first_table.py, whose settings these are; the learning rates are tripled, so that runs
pass their peak.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import cells
import first_table
from common import draw
from isospace.statistics.correlation import FloatArray
from isospace.training.selection import is_collapsed

PAGE = Path(__file__).parent.parent / "docs" / "results" / "selection.md"
RESULTS = PAGE.with_suffix(".json")
STARTS = ("mean", "cls", "docstrings")
OBJECTIVES = ("simcse", "whitenedcse", "simcse++", "iso")
SEEDS = (0, 1, 2)
SENTENCES, EVALUATIONS = 8_000, 16
FASTER = 3

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
"""The best is what no label-free rule can know: of STS-B dev, on docstrings of the test pairs."""


def main() -> None:
    """Run the missing cells, a few at a time."""
    table_cells = [(start, name, seed) for seed in SEEDS for start in STARTS for name in OBJECTIVES]
    cells.main(__doc__.splitlines()[0], "selection", table_cells, RESULTS, run_cell, _draw)


def run_cell(cell: cells.Cell, corpus: Path, sts: Path, work: Path) -> dict[str, Any]:
    """Train one objective with one seed; measure every evaluation, score what the rules pick."""
    import torch
    from safetensors.torch import load_file, save_file

    from isospace.commands.console import Console
    from isospace.config import CorpusConfig, TrainConfig
    from isospace.evaluation.retrieval import evaluate_retrieval
    from isospace.training.evaluations import run_evaluation
    from isospace.training.prepare import make_accelerator, prepare

    start, name, seed = cell
    table = first_table.TABLES[start]
    config = TrainConfig(
        text=CorpusConfig(corpus=("docstrings",) if table.docstrings else (str(corpus),)),
        objective=table.objectives[name],
        pooling=table.pooling,
        learning_rate=FASTER * table.learning_rate,
        select="last" if table.docstrings else "labels",
        labels=str(work / cells.DEV_FILE),
        seed=seed,
    )
    accelerator = make_accelerator(config)
    data, loop = prepare(config, accelerator, Console())
    encoder = loop.training.encoder
    loop.total_steps = SENTENCES // loop.sentences_per_step
    at = {round(loop.total_steps * i / EVALUATIONS) for i in range(EVALUATIONS + 1)}
    evaluations: list[Evaluation] = []
    with tempfile.TemporaryDirectory(dir=work) as folder:

        def evaluation() -> None:
            found = run_evaluation(config, encoder, data.held_out, data.benchmark, "bf16")
            if table.docstrings:
                embed = partial(encoder.embed, precision="bf16")
                found["test_mrr"] = evaluate_retrieval(embed, data.benchmark.pairs).mrr
            evaluations.append({"step": float(loop.step), **found})
            weights = {
                k: v.detach().cpu().contiguous() for k, v in encoder.model.state_dict().items()
            }
            save_file(weights, Path(folder) / f"{loop.step}.safetensors")

        evaluation()
        for step in loop:
            if step.step in at:
                evaluation()
        scores = {int(x["step"]): 100 * x["test_mrr"] for x in evaluations if "test_mrr" in x}
        for picked in {_pick(evaluations, rule) for rule in RULES.values()} - scores.keys():
            encoder.model.load_state_dict(load_file(Path(folder) / f"{picked}.safetensors"))
            scores[picked] = first_table.sts_scores(encoder, sts, "bf16")["Avg"]
    return {
        "cell": cell,
        "evaluations": evaluations,
        "averages": scores,
        "torch": torch.__version__,
    }


def _pick(evaluations: Sequence[Evaluation], rule: Callable[[Evaluation], float]) -> int:
    """The step that a rule keeps; the base model is one of the evaluations."""
    return int(max(evaluations, key=rule)["step"])


def _draw() -> None:
    records = cells.read(RESULTS)
    parts = {}
    for start in STARTS:
        mine = [record for record in records if record["cell"][0] == start]
        parts[f"rules {start}"] = _rules(mine) if mine else "(not run yet)\n"
    parts["collapsed"] = _collapsed(records)
    draw(PAGE, parts)


def _collapsed(records: Sequence[dict[str, Any]]) -> str:
    """How often the guard of `--select label-free` would have spoken."""
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
