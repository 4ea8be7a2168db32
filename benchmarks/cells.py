"""Cells of a table: many resumable trainings in processes, a few at a time."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from common import write_dev_file
from isospace.system.files import write_text
from isospace.system.jobs import Ended, Job, run_jobs
from isospace.system.signals import end_with_input

Cell = tuple[str, str, int]
"""Table or start, objective, seed."""
DEV_FILE = "stsb-dev.csv"
"""STS-B dev, in the folder of the runs."""
_RECORD = "CELL "
"""How the last line begins that a cell's process says."""


def main(
    description: str,
    work: str,
    cells: Iterable[Cell],
    results: Path,
    run_cell: Callable[[Cell, Path, Path, Path], dict[str, Any]],
    draw: Callable[[], None],
) -> None:
    """The command of a table: run the missing cells, a few at a time, and draw.

    Args:
        description: for --help.
        work: name of the folder of the runs.
        cells: all cells, in the order in which they are run.
        results: JSON list of records, each with its "cell".
        run_cell: cell, corpus, STS folder, folder of the runs -> record; in a process of its own.
        draw: puts what is there into the page.
    """
    options = _parse(description, work)
    os.environ.pop("ISOSPACE_DATA", None)  # what a cell is scored on is the table's
    if options.cell:
        end_with_input()
        # Two small processes finish more sentences so than one with two threads, and what a cell
        # comes to does not depend on --jobs.
        torch.set_num_threads(1)
        table, name, seed = options.cell
        record = run_cell((table, name, int(seed)), options.corpus, options.sts, options.work)
        print(f"{_RECORD}{json.dumps(record)}")
        return
    write_dev_file(options.sts, options.work / DEV_FILE)
    _run_missing(list(cells), results, options, draw)
    draw()


def _parse(description: str, work: str) -> argparse.Namespace:
    """--cell is how a table calls itself for one cell."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("sts", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--work", type=Path, default=Path("runs") / work)
    parser.add_argument("--only", nargs="+", help="run the cells of these tables or starts alone")
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    return options


def _run_missing(
    cells: list[Cell], results: Path, options: argparse.Namespace, draw: Callable[[], None]
) -> None:
    """Run what the results lack, and write each record as soon as it is there."""
    done = {tuple(record["cell"]) for record in read(results)}
    missing = [c for c in cells if c not in done and (not options.only or c[0] in options.only)]
    failed = []

    def log(cell: Cell) -> Path:
        return options.work / f"{'-'.join(map(str, cell))}.log"

    def begin(cell: Cell) -> Job:
        _say("started", cell)
        command = [sys.executable, sys.argv[0], str(options.corpus), str(options.sts)]
        return Job([*command, "--work", str(options.work), "--cell", *map(str, cell)], log(cell))

    def end(cell: Cell, ended: Ended) -> None:
        if ended.status or not ended.last_line.startswith(_RECORD):
            _say("FAILED", cell, f"{ended.reason}; see {log(cell)}")
            failed.append(cell)
            return
        record = json.loads(ended.last_line.removeprefix(_RECORD))
        _write(results, [*read(results), record], sorted(cells, key=lambda c: c[2]))
        _say("done", cell)
        draw()

    try:
        run_jobs(missing, options.jobs, begin, end)
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")
    if failed:
        sys.exit(f"{len(failed)} of the cells failed; the page is drawn without them")


def read(results: Path) -> list[dict[str, Any]]:
    """The records that are there."""
    return json.loads(results.read_text()) if results.is_file() else []


def _write(results: Path, records: list[dict[str, Any]], cells: list[Cell]) -> None:
    """One record per line: tables and objectives in their order, then seeds."""
    names = list(dict.fromkeys(cell[:2] for cell in cells))
    records.sort(key=lambda record: (names.index(tuple(record["cell"][:2])), record["cell"][2]))
    results.parent.mkdir(parents=True, exist_ok=True)
    write_text(results, "[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")


def _say(what: str, cell: Cell, more: str = "") -> None:
    print(time.strftime("%H:%M:%S"), what, *cell, more, flush=True)
