"""Cells of a table: many trainings, each a process of its own, a few side by side, resumable."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from common import write_dev_file
from isospace.system.files import write_text

Cell = tuple[str, str, int]
"""Table or start, objective, seed."""
DEV_FILE = "stsb-dev.csv"
"""STS-B dev, in the folder of the runs."""


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
    if options.cell:
        table, name, seed = options.cell
        record = run_cell((table, name, int(seed)), options.corpus, options.sts, options.work)
        print("CELL", json.dumps(record))
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
    failed = []
    todo = [c for c in cells if c not in done and (not options.only or c[0] in options.only)]
    running: dict[Cell, tuple[subprocess.Popen[str], Path]] = {}
    while todo or running:
        while todo and len(running) < options.jobs:
            cell = todo.pop(0)
            log = options.work / f"{'-'.join(map(str, cell))}.log"
            running[cell] = (_start(cell, options, log), log)
            _say("started", cell)
        for cell, (process, log) in list(running.items()):
            if process.poll() is None:
                continue
            del running[cell]
            last = log.read_text().splitlines()[-1:]
            if process.returncode or not last or not last[0].startswith("CELL "):
                _say("FAILED", cell, f"see {log}")
                failed.append(cell)
                continue
            record = json.loads(last[0].removeprefix("CELL "))
            _write(results, [*read(results), record], sorted(cells, key=lambda c: c[2]))
            _say("done", cell)
            draw()
        time.sleep(2)
    if failed:
        sys.exit(f"{len(failed)} of the cells failed; the page is drawn without them")


def read(results: Path) -> list[dict[str, Any]]:
    """The records that are there."""
    return json.loads(results.read_text()) if results.is_file() else []


def _start(cell: Cell, options: argparse.Namespace, log: Path) -> subprocess.Popen[str]:
    # One thread each: two small processes finish more sentences than one with two threads.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment.pop("ISOSPACE_DATA", None)
    command = [sys.executable, sys.argv[0], str(options.corpus), str(options.sts)]
    command += ["--work", str(options.work), "--cell", *map(str, cell)]
    with log.open("w") as file:
        return subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env=environment, text=True
        )


def _write(results: Path, records: list[dict[str, Any]], cells: list[Cell]) -> None:
    """One record per line: tables and objectives in their order, then seeds."""
    names = list(dict.fromkeys(cell[:2] for cell in cells))
    records.sort(key=lambda record: (names.index(tuple(record["cell"][:2])), record["cell"][2]))
    results.parent.mkdir(parents=True, exist_ok=True)
    write_text(results, "[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")


def _say(what: str, cell: Cell, more: str = "") -> None:
    print(time.strftime("%H:%M:%S"), what, *cell, more, flush=True)
