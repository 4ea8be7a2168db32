"""Comparisons that take hours: finished runs are kept in an archive, and are not run again."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from cell_archive import BASELINES, pack, unpack
from common import gain_cell, points
from isospace.comparison.compare import Measure, compare
from isospace.comparison.results import ComparisonResults
from isospace.comparison.runs import Baseline, compare_runs
from isospace.config import TrainConfig
from isospace.errors import Stopped, UserError
from isospace.report.tables import mean_sd
from isospace.system.progress import Logged
from isospace.system.tables import markdown_table
from isospace.training.run import Run


def parser(description: str, work: str, seeds: int) -> argparse.ArgumentParser:
    """Return the options of every such script; --judge STS_FOLDER replaces the two paths."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("sts", type=Path, nargs="?")
    parser.add_argument("--judge", type=Path, metavar="STS_FOLDER")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--output", type=Path, default=Path("runs") / work)
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the options; refuse a call without both paths and without --judge."""
    options = parser.parse_args()
    if options.judge is None and options.sts is None:
        parser.error("give CORPUS and STS_FOLDER, or --judge STS_FOLDER")
    return options


class _Archiving(Logged):
    """Progress that archives every finished run, because a machine may be lost."""

    def __init__(self, runs: Path, archive: Path) -> None:
        self._runs, self._archive = runs, archive

    def line(self, label: str, text: str) -> None:
        """Show a line, and archive finished runs when a cell begins or ends."""
        super().line(label, text)
        if label == "cell":
            pack(self._runs, self._archive)


def run(
    candidates: Mapping[str, TrainConfig],
    seeds: int,
    runs: Path,
    archive: Path,
    jobs: int,
    baselines: Mapping[str, Path] | None = None,
    measure: Measure = "sts",
) -> ComparisonResults:
    """Run what neither the folder of the runs nor the archive has, keep it in both, and compare.

    The candidates share one corpus, and the STS sets where these are measured. `baselines` are the
    models of rows that are not trained; their scores are archived too.
    """
    first = next(iter(candidates.values()))
    try:
        unpack(archive, runs, Path(first.text.corpus[0]), Path(first.data or ""))
        models = {name: str(model) for name, model in (baselines or {}).items()}
        progress = _Archiving(runs, archive)
        found = compare(candidates, seeds, runs, measure, jobs, models, progress)
    except (UserError, Stopped) as error:
        sys.exit(str(error))
    pack(runs, archive)
    assert found is not None  # the first of several processes judges
    return found


def judged_again(
    names: Collection[str],
    archive: Path,
    corpus: Path,
    sts: Path,
    measure: Literal["MRR", "Avg"] = "Avg",
    seeds: int | None = None,
) -> ComparisonResults:
    """Compare the finished runs of an archive; nothing is trained, no text is read.

    `names` are of rows, trained or not, of which the first `seeds` count (default: all).
    """
    with TemporaryDirectory() as folder:
        unpack(archive, Path(folder), corpus, sts)
        runs = {name: sorted(Path(folder).glob(f"{name}/seed-*"))[:seeds] for name in names}
        there = {name: list(map(Run, found)) for name, found in runs.items() if found}
        scored = {name: Baseline.read(Path(folder, BASELINES, name)) for name in names}
        baselines = {name: [found] for name, found in scored.items() if found}
        return compare_runs(there, measure, baselines)


def means(results: ComparisonResults, column: str) -> dict[str, str]:
    """Return row -> the mean of a score over the seeds."""
    return {row: mean_sd(own[column].seeds).split()[0] for row, own in results.scores.items()}


def gains_table(
    results: ComparisonResults, further: Mapping[str, Mapping[str, str]] | None = None
) -> str:
    """Draw the gain of each row in the score of the verdict, the largest first.

    `further` has the cells of more columns: title -> row -> cell.
    """
    measure, further = results.measure, further or {}
    base = mean_sd(results.scores["base model"][measure].seeds)
    rows = [{"": "base model", measure: base, "gain": "", "p (Holm)": ""}]
    for name, columns in sorted(
        results.gains.items(), key=lambda row: -row[1][measure].over_base.mean
    ):
        found = columns[measure]
        row = {
            "": name,
            measure: mean_sd(results.scores[name][measure].seeds),
            "gain": gain_cell(points(found.over_base)),
            "p (Holm)": f"{found.holm_p:.2g}",
        }
        rows.append(row)
    return markdown_table(
        [row | {title: cells.get(row[""], "") for title, cells in further.items()} for row in rows]
    )
