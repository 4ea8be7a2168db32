"""docs/results/first-table.md: every objective from the same base model, on the same sentences.

    python benchmarks/first_table.py CORPUS STS_FOLDER [--jobs 2] [--work FOLDER]

CORPUS is a text file (the published table: english_mixed.txt.gz), STS_FOLDER the seven sets in
SentEval's layout. A cell is one objective with one seed; each is a process of its own with one
thread, and its scores go to docs/results/first-table.json as soon as they are there; then the
tables in docs/results/first-table.md are drawn anew, between their markers. Cells found there are
not run again, and a cell that was killed goes on from its last checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import cells
from common import draw
from isospace.evaluation.scores import BenchmarkScores
from isospace.objectives import (
    DCL,
    SCD,
    BarlowTwins,
    CovarianceIdentity,
    Iso,
    OffDropout,
    SimCSE,
    SimCSEPP,
    WhitenedCSE,
)
from isospace.objectives.base import Objective
from isospace.report.tables import mean_sd

SEEDS = (0, 1, 2)
PAGE = Path(__file__).parent.parent / "docs" / "results" / "first-table.md"
RESULTS = PAGE.with_suffix(".json")
SHOWN = ("STS12", "SICK-R", "Avg", "MRR", "R@1", "R@10")
PROJECTOR = (1024, 1024, 1024)  # the papers' 4096 and 8192 would cost more than the encoder itself


@dataclass(frozen=True)
class Table:
    """Objectives that share a base model, a corpus and a budget.

    Attributes:
        objectives: by the name of the row.
        learning_rate: of every row.
        sentences: the budget of a run.
        pooling: of the base model; `None` for its own.
        docstrings: train on and measure by docstrings; else the corpus given, by the STS sets.
    """

    objectives: dict[str, Objective]
    learning_rate: float
    sentences: int = 16_000
    pooling: str | None = None
    docstrings: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Of the cells; a run on docstrings examines the base model itself."""
        return tuple(self.objectives) if self.docstrings else ("start", *self.objectives)


TABLES = {
    "cls": Table(
        {
            "simcse": SimCSE(),
            "whitenedcse": WhitenedCSE(),
            "scd": SCD(projector=PROJECTOR),
            "off-dropout": OffDropout(),
            "dcl": DCL(),
            "simcse++": SimCSEPP(),
            "barlow-twins": BarlowTwins(projector=PROJECTOR),
            "covariance-identity": CovarianceIdentity(),
            "iso": Iso(head="mlp", temperature=0.05),
        },
        learning_rate=3e-5,
        pooling="cls",
    ),
    "mean": Table(
        {
            "simcse": SimCSE(head="none", temperature=0.15),
            "whitenedcse": WhitenedCSE(head="none", temperature=0.15),
            "simcse++": SimCSEPP(head="none", temperature=0.15, m=1.0),
            "iso": Iso(),
        },
        learning_rate=1e-5,
    ),
    "docstrings": Table(
        {
            "simcse": SimCSE(head="none", temperature=0.15),
            "whitenedcse": WhitenedCSE(head="none", temperature=0.15),
            "simcse++": SimCSEPP(head="none", temperature=0.15, m=1.0),
            "iso": Iso(),
        },
        learning_rate=1e-5,
        sentences=6_400,
        docstrings=True,
    ),
}


def main() -> None:
    """Run the missing cells, a few at a time."""
    table_cells = [
        (table, name, seed)
        for seed in SEEDS
        for table in TABLES
        for name in TABLES[table].names
        if name != "start" or seed == SEEDS[0]
    ]
    cells.main(__doc__.splitlines()[0], "first-table", table_cells, RESULTS, run_cell, _draw)


def _draw() -> None:
    draw(PAGE, {f"table {table}": _table(table) for table in TABLES})


def _table(table: str) -> str:
    """Mean and standard deviation over the seeds, one line an objective."""
    records = [record for record in cells.read(RESULTS) if record["cell"][0] == table]
    if not records:
        return "(not run yet)\n"
    columns = [name for name in records[0]["scores"] if name in SHOWN]
    lines = ["| | " + " | ".join(columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for name in ("start", *TABLES[table].objectives):
        mine = [record for record in records if record["cell"][1] == name]
        if name == "start" and TABLES[table].docstrings:
            # Every run examines the base model; the pairs are the same, so the scores are.
            mine = [{**records[0], "scores": records[0]["start_scores"]}]
        if not mine:
            continue
        shown = [mean_sd([r["scores"][c] for r in mine]) for c in columns]
        shown = [
            s if c in ("Avg", "MRR") else s.split()[0] for c, s in zip(columns, shown, strict=True)
        ]
        row = "base model" if name == "start" else name
        lines.append(f"| {row} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def run_cell(cell: cells.Cell, corpus: Path, sts: Path, work: Path) -> dict[str, Any]:
    """Train one objective with one seed and score what the table's rule keeps."""
    from isospace.config import CorpusConfig, TrainConfig
    from isospace.encoders.loading import load_encoder
    from isospace.training.train import train

    name, seed = cell[1:]
    table = TABLES[cell[0]]
    record: dict[str, Any] = {"cell": cell, "seconds": 0.0, "sentences": table.sentences}
    encoder = load_encoder("minilm", table.pooling)
    if name != "start":
        folder = work / "-".join(map(str, cell))
        config = TrainConfig(
            text=CorpusConfig(
                corpus=("docstrings",) if table.docstrings else (str(corpus),),
                held_out=2000 if table.docstrings else 200,
            ),
            objective=table.objectives[name],
            model="minilm",
            pooling=table.pooling,
            learning_rate=table.learning_rate,
            budget=(table.sentences, "sentences"),
            evaluations=4,
            select="label-free" if table.docstrings else "labels",
            labels=str(work / cells.DEV_FILE),
            seed=seed,
            output=folder,
        )
        begun = (folder / "config.json").is_file()
        outcome = train(resume=folder) if begun else train(config)
        seconds = [step["seconds"] for step in outcome.run.steps()]
        results = outcome.results
        record |= {
            # Of a quiet machine: a tenth of the updates had nothing beside them.
            "seconds": len(seconds) * float(np.percentile(seconds, 10)),
            "kept_step": results.choice.step,
            "criterion": [
                evaluation[results.choice.criterion] for evaluation in results.evaluations
            ],
            "objective": config.to_dict()["objective"],
            "learning_rate": table.learning_rate,
            "environment": results.environment,
        }
        if table.docstrings:
            record["scores"] = _pair_scores(results.adapted)
            record["start_scores"] = _pair_scores(results.base)
            return record
        from safetensors.torch import load_file

        encoder.model.load_state_dict(load_file(outcome.run.kept_weights))
    record["scores"] = sts_scores(encoder, sts)
    return record


def _pair_scores(scores: BenchmarkScores) -> dict[str, float]:
    pairs = scores.pairs
    return {"MRR": 100 * pairs.mrr} | {f"R@{k}": 100 * pairs.recall[k] for k in (1, 10)}


def sts_scores(encoder: Any, sts: Path, precision: Any = "float32") -> dict[str, float]:
    """The papers' row on the test sets, alignment and uniformity on STS-B dev."""
    from isospace.evaluation.geometry import stsb_geometry
    from isospace.evaluation.sts import evaluate_sts, load_sts

    embed = partial(encoder.embed, precision=precision)
    tasks = load_sts(sts)
    tests = {name: task.test_only() for name, task in tasks.items()}
    row = evaluate_sts(embed, tests).paper_row()
    geometry = stsb_geometry(embed, tasks)  # on STS-B dev
    return {k: v for k, v in row.items() if v is not None} | {
        "alignment": geometry.alignment,
        "uniformity": geometry.uniformity,
    }


if __name__ == "__main__":
    main()
