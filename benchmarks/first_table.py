"""docs/results/first-table.md: every objective from the same start, on the same sentences.

    python benchmarks/first_table.py CORPUS STS_FOLDER [--jobs 2] [--work FOLDER]

CORPUS is a text file (the published table: english_mixed.txt.gz), STS_FOLDER the seven sets in
SentEval's layout. A cell is one objective with one seed; each is a process of its own with one
thread, and its scores go to docs/results/first-table.json as soon as they are there; then the
tables in docs/results/first-table.md are drawn anew, between their markers. Cells found there are
not run again, and a cell that was killed goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import draw, write_dev_file
from isospace.files import write_text
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

SEEDS = (0, 1, 2)
PAGE = Path(__file__).parent.parent / "docs" / "results" / "first-table.md"
RESULTS = PAGE.with_suffix(".json")
PROJECTOR = (1024, 1024, 1024)  # the papers' 4096 and 8192 would cost more than the encoder itself


@dataclass(frozen=True)
class Table:
    """Objectives that share a start, a corpus and a budget.

    Attributes:
        objectives: by the name of the row.
        learning_rate: of every row.
        sentences: the budget of a run.
        pooling: of the start; `None` for its own.
        docstrings: train on and measure by docstrings; else the corpus given, by the STS sets.
    """

    objectives: dict[str, Objective]
    learning_rate: float
    sentences: int = 16_000
    pooling: str | None = None
    docstrings: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Of the cells; a run on docstrings examines the start itself."""
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

Cell = tuple[str, str, int]


def main() -> None:
    """Run the missing cells, a few at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("sts", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--work", type=Path, default=Path("runs/first-table"))
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        table, name, seed = options.cell
        record = run_cell((table, name, int(seed)), options.corpus, options.sts, options.work)
        print("CELL", json.dumps(record))
        return
    options.work.mkdir(parents=True, exist_ok=True)
    write_dev_file(options.sts, _dev_file(options.work))
    done = {tuple(record["cell"]) for record in read_results()}
    todo: list[Cell] = [
        (table, name, seed)
        for seed in SEEDS
        for table in options.tables
        for name in TABLES[table].names
        if (name != "start" or seed == SEEDS[0]) and (table, name, seed) not in done
    ]
    _run_all(todo, options)
    _draw()


def _run_all(todo: list[Cell], options: argparse.Namespace) -> None:
    running: dict[Cell, tuple[subprocess.Popen[str], Path]] = {}
    # One thread each: two small processes finish more sentences than one with two threads.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment.pop("ISOSPACE_DATA", None)
    while todo or running:
        while todo and len(running) < options.jobs:
            cell = todo.pop(0)
            log = options.work / f"{'-'.join(map(str, cell))}.log"
            command = [sys.executable, __file__, str(options.corpus), str(options.sts)]
            command += ["--work", str(options.work), "--cell", *map(str, cell)]
            with log.open("w") as file:
                process = subprocess.Popen(
                    command, stdout=file, stderr=subprocess.STDOUT, env=environment, text=True
                )
            running[cell] = (process, log)
            print(time.strftime("%H:%M:%S"), "started", *cell, flush=True)
        for cell, (process, log) in list(running.items()):
            if process.poll() is None:
                continue
            del running[cell]
            last = log.read_text().splitlines()[-1:]
            if process.returncode or not last or not last[0].startswith("CELL "):
                print(time.strftime("%H:%M:%S"), "FAILED", *cell, f"see {log}", flush=True)
                continue
            record = json.loads(last[0].removeprefix("CELL "))
            write_results([*read_results(), record])
            _draw()
            print(time.strftime("%H:%M:%S"), "done", *cell, _short(record), flush=True)
        time.sleep(2)


def read_results() -> list[dict[str, Any]]:
    """The cells that are there."""
    return json.loads(RESULTS.read_text()) if RESULTS.is_file() else []


def write_results(records: list[dict[str, Any]]) -> None:
    """One cell per line, in the order of the tables."""
    order = [(table, name) for table in TABLES for name in TABLES[table].names]
    records.sort(key=lambda r: (order.index((r["cell"][0], r["cell"][1])), r["cell"][2]))
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    write_text(RESULTS, "[\n" + ",\n".join(json.dumps(r) for r in records) + "\n]\n")


def _short(record: dict[str, Any]) -> str:
    key = "Avg" if "Avg" in record["scores"] else "MRR"
    return f"{key} {record['scores'][key]:.2f}, {record['seconds']:.0f} s of training"


def _draw() -> None:
    draw(PAGE, {f"table {table}": _table(table) for table in TABLES})


def _table(table: str) -> str:
    """Mean and standard deviation over the seeds, one line an objective."""
    records = [record for record in read_results() if record["cell"][0] == table]
    if not records:
        return "(not run yet)\n"
    columns = list(records[0]["scores"])
    lines = ["| | " + " | ".join(columns) + " | seconds | steps kept | seeds |"]
    lines.append("|---" * (len(columns) + 4) + "|")
    for name in ("start", *TABLES[table].objectives):
        mine = [record for record in records if record["cell"][1] == name]
        if name == "start" and TABLES[table].docstrings:
            # Every run examines the start; the pairs are the same, so the scores are.
            mine = [{**records[0], "scores": records[0]["start_scores"], "seconds": 0.0}]
        if not mine:
            continue
        cells = [_mean([r["scores"][c] for r in mine], 3 if c.islower() else 2) for c in columns]
        kept = ", ".join(str(r["kept_step"]) for r in mine) if name != "start" else ""
        seconds = f"{np.mean([r['seconds'] for r in mine]):.0f}" if name != "start" else ""
        count = str(len(mine)) if name != "start" else ""
        lines.append(f"| {name} | " + " | ".join([*cells, seconds, kept, count]) + " |")
    return "\n".join(lines) + "\n"


def _mean(values: list[float], digits: int) -> str:
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def _dev_file(work: Path) -> Path:
    return work / "stsb-dev.csv"


def run_cell(cell: Cell, corpus: Path, sts: Path, work: Path) -> dict[str, Any]:
    """Train one objective with one seed and score what the table's rule keeps."""
    import torch

    from isospace.config import CorpusConfig, TrainConfig
    from isospace.loading import load_encoder
    from isospace.train import train

    torch.set_num_threads(1)
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
            looks=4,
            select="label-free" if table.docstrings else "labels",
            labels=str(_dev_file(work)),
            seed=seed,
            output=folder,
        )
        begun = (folder / "config.json").is_file()
        outcome = train(resume=folder, quiet=True) if begun else train(config, quiet=True)
        steps = [line for line in outcome.run.metrics() if line["kind"] == "step"]
        results = outcome.results
        record |= {
            "seconds": sum(line["seconds"] for line in steps),
            "kept_step": results["choice"]["step"],
            "criterion": [look[results["choice"]["criterion"]] for look in results["looks"]],
            "objective": config.to_dict()["objective"],
            "learning_rate": table.learning_rate,
            "environment": results["environment"],
        }
        if table.docstrings:
            record["scores"] = _pair_scores(results["result"])
            record["start_scores"] = _pair_scores(results["start"])
            return record
        from safetensors.torch import load_file

        encoder.model.load_state_dict(load_file(outcome.run.kept_weights))
    record["scores"] = _sts_scores(encoder, sts)
    return record


def _pair_scores(result: dict[str, Any]) -> dict[str, float]:
    pairs = result["scores"]["pairs"]
    return {"MRR": 100 * pairs["mrr"]} | {f"R@{k}": 100 * pairs[f"recall@{k}"] for k in (1, 10)}


def _sts_scores(encoder: Any, sts: Path) -> dict[str, float]:
    from isospace.evaluation.geometry import stsb_geometry
    from isospace.evaluation.sts import evaluate_sts, load_sts

    tasks = load_sts(sts)
    tests = {name: task.test_only() for name, task in tasks.items()}
    row = evaluate_sts(encoder.embed, tests).paper_row()
    geometry = stsb_geometry(encoder.embed, tasks)  # on STS-B dev
    return {k: v for k, v in row.items() if v is not None} | {
        "alignment": geometry.alignment,
        "uniformity": geometry.uniformity,
    }


if __name__ == "__main__":
    main()
