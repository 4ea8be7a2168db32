"""docs/results/comparison.md: rows of the first table again, by `isospace compare`.

    python benchmarks/comparison.py CORPUS STS_FOLDER [--jobs 2] [--seeds 5] [--output FOLDER]
    python benchmarks/comparison.py --judge STS_FOLDER

From [CLS], with the settings, the number of evaluations and the rule of first_table.py, but twice
its sentences, five seeds and 1,000 sentences held out.
Goes on where it was stopped, as every comparison does, and with the cells whose records are in
docs/results/comparison-cells; the report is in the folder of the runs. With --judge nothing is
trained and no text is read: the finished runs in comparison-cells are judged again, and the page is
drawn of what they say.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import first_table
from cell_archive import pack, unpack
from common import draw
from isospace.comparison.compare import compare
from isospace.comparison.judgement import judge_runs
from isospace.comparison.results import ComparisonResults, write_results
from isospace.config import CorpusConfig, TrainConfig
from isospace.errors import Stopped, UserError
from isospace.recipes import STS_COLUMNS
from isospace.report.papers import mean_sd
from isospace.report.scoreboard import COMPARISON_TABLES
from isospace.system.tables import markdown_table
from isospace.training.run import Run

PAGE = Path(__file__).parent.parent / "docs" / "results" / "comparison.md"
CORPUS = "english_mixed.txt.gz"
"""The text of the runs in the archive."""
OBJECTIVES = ("simcse", "whitenedcse", "scd", "simcse++", "iso")
CELLS = PAGE.with_name("comparison-cells")
SEEDS, SENTENCES, EVALUATIONS, HELD_OUT = 5, 32_000, 4, 1_000


def main() -> None:
    """Run what is missing; then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("sts", type=Path, nargs="?")
    parser.add_argument("--judge", type=Path, metavar="STS_FOLDER")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--output", type=Path, default=Path("runs") / "comparison")
    options = parser.parse_args()
    if options.judge is not None:
        _draw(judged_again(options.judge))
        return
    if options.sts is None:
        parser.error("give CORPUS and STS_FOLDER, or --judge STS_FOLDER")
    table = first_table.TABLES["cls"]
    base = TrainConfig(
        text=CorpusConfig(corpus=(str(options.corpus),), held_out=HELD_OUT),
        pooling=table.pooling,
        learning_rate=table.learning_rate,
        budget=(SENTENCES, "sentences"),
        evaluations=EVALUATIONS,
        select="labels",
        data=str(options.sts),
        seed=0,
    )
    candidates = {name: replace(base, objective=table.objectives[name]) for name in OBJECTIVES}
    try:
        unpack(CELLS, options.output, options.corpus, options.sts)
        found = compare(candidates, options.seeds, options.output, "sts", options.jobs)
    except UserError as error:  # other settings than these, perhaps: not for the archive
        sys.exit(str(error))
    except Stopped as error:
        pack(options.output, CELLS)
        sys.exit(str(error))
    pack(options.output, CELLS)
    if found is not None:
        _draw(found)


def judged_again(sts: Path) -> ComparisonResults:
    """What the finished runs of the archive say together."""
    with TemporaryDirectory() as folder:
        runs = Path(folder)
        unpack(CELLS, runs, Path(CORPUS), sts)
        seeds = {name: sorted(runs.glob(f"{name}/seed-*")) for name in OBJECTIVES}
        return judge_runs({name: list(map(Run, found)) for name, found in seeds.items()}, "Avg")


def _draw(results: ComparisonResults) -> None:
    """The whole record beside the page, without paths; in it the verdict and the tables."""
    for settings in results.settings.values():
        settings["text"]["corpus"] = [Path(corpus).name for corpus in settings["text"]["corpus"]]
        settings["data"] = "STS"
    record = replace(results, verdict=replace(results.verdict, model=None))
    write_results(PAGE.with_suffix(".json"), record)
    scores = [
        {"": name} | {column: mean_sd(columns[column].seeds) for column in STS_COLUMNS}
        for name, columns in results.scores.items()
    ]
    tables = filter(None, (make("", results) for make in COMPARISON_TABLES))
    parts = {table.name: f"{markdown_table(table.rows)}\n\n{table.note}" for table in tables}
    parts |= {"verdict": results.verdict.text, "scores": markdown_table(scores)}
    draw(PAGE, {name: text.rstrip() + "\n" for name, text in parts.items()})


if __name__ == "__main__":
    main()
