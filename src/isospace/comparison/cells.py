"""The cells of a comparison: runs one after the other here, or side by side in their own processes.

A cell that is finished is read, one that was stopped is resumed, the rest are begun.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from isospace.config import TrainConfig
from isospace.errors import Stopped, UserError
from isospace.system.processes import first
from isospace.system.progress import Progress, Silent
from isospace.system.signals import END_WITH_INPUT, polite_stop
from isospace.training.run import Run
from isospace.training.train import train

_FREE = ("output", "checkpoint_minutes", "trackers")
"""Settings that may change when a cell is gone on with."""
_LOOK_EVERY = 0.2
"""Seconds between two looks at the processes."""


@dataclass(frozen=True)
class Cell:
    """One run of a comparison.

    Attributes:
        name: the row it belongs to.
        config: its settings, with seed and folder.
    """

    name: str
    config: TrainConfig

    @property
    def folder(self) -> Path:
        """The run's folder."""
        if self.config.output is None:
            raise ValueError(f"cell {self.name} has no folder")
        return self.config.output

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to run; the results are what a run writes last."""
        return self.begun and Run(self.folder).results is not None

    @property
    def begun(self) -> bool:
        """Whether there is a run in the folder."""
        return (self.folder / "config.json").is_file()

    def __str__(self) -> str:
        """For people."""
        return f"{self.name}, seed {self.config.seed}"


def require_runnable(cells: Sequence[Cell], jobs: int) -> None:
    """Refuse what `run_cells` cannot run.

    Raises:
        UserError: a folder that holds a run with other settings; several processes for each run
            and several runs at a time.
    """
    for cell in cells:
        _require_same_settings(cell)
    if jobs > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(f"`jobs` {jobs}: several processes share each run already; give 1")


def run_cells(cells: Sequence[Cell], jobs: int, progress: Progress) -> bool:
    """Run what is missing of the cells, which `require_runnable` allows.

    Args:
        cells: in the order in which they are run.
        jobs: how many at a time; more than one share the processor's threads, and the GPUs where
            there are several.
        progress: where it is shown.

    Returns:
        Whether this process holds the results: of several that share a run, only the first.

    Raises:
        UserError: bad input.
        Stopped: a cell was stopped or diverged; called again, this goes on from there.
    """
    if jobs > 1:
        with closing(_SideBySide(cells, jobs, progress)) as side_by_side:
            side_by_side.run()
    else:
        _one_by_one(cells, progress if first() else Silent())
    return first()


def _require_same_settings(cell: Cell) -> None:
    if not cell.begun:
        return
    there, wanted = Run(cell.folder).config.to_dict(), cell.config.to_dict()
    other = [name for name in wanted if name not in _FREE and there[name] != wanted[name]]
    if other:
        name = other[0]
        raise UserError(
            f"{cell.folder}: holds a run with other settings ({', '.join(other)}: {name} was "
            f"{there[name]}, is {wanted[name]}); give another `output`, or remove it"
        )


def _one_by_one(cells: Sequence[Cell], progress: Progress) -> None:
    for place, cell in enumerate(cells, start=1):
        if not cell.finished:
            progress.line("cell", f"{place} of {len(cells)}: {cell}")
            resume = cell.folder if cell.begun else None
            train(None if resume else cell.config, resume, progress)


@dataclass(frozen=True)
class _Running:
    """A cell in a process of its own.

    Attributes:
        cell: the cell.
        process: of `isospace train --resume`.
        logged: bytes of its log that earlier processes wrote.
    """

    cell: Cell
    process: subprocess.Popen[bytes]
    logged: int


class _SideBySide:
    """Processes of `isospace train --resume`, each with a log beside its run."""

    def __init__(self, cells: Sequence[Cell], jobs: int, progress: Progress) -> None:
        self._cells, self._progress = cells, progress
        self._waiting = [cell for cell in cells if not cell.finished]
        self._slots: list[_Running | None] = [None] * jobs
        # Nothing is ever written to it: where this process is killed it ends, and so do they.
        self._lifeline = os.pipe()

    def run(self) -> None:
        """Start what waits, as places come free, until all are done."""
        done = len(self._cells) - len(self._waiting)
        self._progress.line("cells", f"{done} of {len(self._cells)} are there")
        with polite_stop() as stop, self._progress.bar("cells", len(self._cells)) as advance:
            advance(done)
            while self._waiting or any(self._slots):
                if stop:
                    raise Stopped("interrupted; nothing is lost. Continue with the same command")
                for slot, running in enumerate(self._slots):
                    if running is not None and running.process.poll() is not None:
                        self._slots[slot] = None
                        self._finish(running)
                        advance(1)
                    if self._slots[slot] is None and self._waiting:
                        self._slots[slot] = self._start(self._waiting.pop(0), slot)
                time.sleep(_LOOK_EVERY)

    def _start(self, cell: Cell, slot: int) -> _Running:
        if not cell.begun:
            Run.create(cell.config)
        command = [sys.executable, "-m", "isospace.cli", "train", "--resume", str(cell.folder)]
        environment = {**os.environ, **share(slot, len(self._slots)), END_WITH_INPUT: "1"}
        with _log(cell).open("ab") as log:
            logged = os.fstat(log.fileno()).st_size
            process = subprocess.Popen(
                command,
                stdin=self._lifeline[0],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process to hear; it asks each once
            )
        self._say(cell, f"started; its progress: {_log(cell)}")
        return _Running(cell, process, logged)

    def _finish(self, running: _Running) -> None:
        cell, status = running.cell, running.process.returncode
        results = Run(cell.folder).results
        if status == 0 and results is not None:
            self._say(cell, f"done in {results.seconds:.0f} s")
            return
        said = _log(cell).read_bytes()[running.logged :].decode("utf-8", "replace")
        reason = "".join(said.splitlines()[-1:]).removeprefix("isospace: ")
        if status < 0:
            reason = f"was killed by signal {-status} (9 by the system: was there memory enough?)"
        failure = UserError if status == 2 else Stopped
        reason = reason or f"exit status {status}"
        raise failure(f"{cell}: {reason} (all it said: {_log(cell)})")

    def _say(self, cell: Cell, what: str) -> None:
        place = self._cells.index(cell) + 1
        self._progress.line("cell", f"{place} of {len(self._cells)}: {cell}: {what}")

    def close(self) -> None:
        """Stop what still runs, politely: each writes a checkpoint."""
        processes = [running.process for running in self._slots if running is not None]
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        for end in self._lifeline:
            os.close(end)


def _log(cell: Cell) -> Path:
    return cell.folder / "train.log"


def share(slot: int, jobs: int) -> dict[str, str]:
    """The environment variables that give one of several processes its part of the machine.

    >>> share(0, 10_000)["OMP_NUM_THREADS"]
    '1'
    """
    found = {"OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // jobs))}
    count = torch.cuda.device_count()
    if count > 1:
        # In a new process numbers are those of the machine again, so the names given here count.
        given = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        names = given if len(given) >= count else list(map(str, range(count)))
        found["CUDA_VISIBLE_DEVICES"] = names[slot % count].strip()
    return found
