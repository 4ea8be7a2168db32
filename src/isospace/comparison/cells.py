"""The cells of a comparison: one run for each row and seed.

Cells run one after the other, or side by side in processes on this machine or on a cluster.
Finished cells are read, stopped ones are resumed, and the others are started.

Processes side by side are jobs, each with a log and a share of the machine. The jobs end with this
process. On a signal to stop, it signals each job once. If it is killed, the jobs' standard input
ends, which `signals.end_with_input` treats as a request to stop.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from isospace.config import TrainConfig
from isospace.errors import Interrupted, Stopped, UserError, first_line
from isospace.system.cluster import Engine, map_on_cluster, require_seen
from isospace.system.consent import SAFE_PATH, trusts_code
from isospace.system.progress import Advance, Logged, Progress, Silent
from isospace.system.settings import to_dict
from isospace.system.signals import END_WITH_INPUT, is_main_process, launched, polite_stop
from isospace.training.run import Run, begun
from isospace.training.train import AFTER, train

Item = TypeVar("Item")

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Job:
    """A command to run, and the log file to which its output is appended."""

    command: Sequence[str]
    log: Path


@dataclass(frozen=True)
class Ended:
    """The end of a job: its exit status (-N if signal N killed it) and its last line of output."""

    status: int
    last_line: str

    @property
    def reason(self) -> str:
        """Reason for the failure of a job, for messages."""
        if self.status < 0:
            hint = "9 by the system: was there memory enough?"
            return f"was killed by signal {-self.status} ({hint})"
        return self.last_line or f"exit status {self.status}"


def run_jobs(
    items: Iterable[Item],
    at_once: int,
    begin: Callable[[Item], Job],
    end: Callable[[Item, Ended], None],
) -> None:
    """Run a job for each item, several at a time.

    The jobs share the processor's threads and the GPUs. An exception in `begin` or `end` stops the
    running jobs.

    `begin` returns the job for an item; `end` is called when that job has ended.

    Raises:
        KeyboardInterrupt: a signal came; the running jobs have stopped.
    """
    waiting = list(items)
    running: dict[int, tuple[Item, _Process]] = {}  # by position
    lifeline, never_written = os.pipe()
    with polite_stop() as request, request.delayed():
        try:
            while (waiting or running) and not request.received:
                for place in range(at_once):
                    if place in running:
                        item, process = running[place]
                        ended = process.ended()
                        if ended is None:
                            continue
                        del running[place]
                        end(item, ended)
                    if waiting and not request.received:
                        item = waiting.pop(0)
                        process = _Process(begin(item), share(place, at_once), lifeline)
                        running[place] = (item, process)
                time.sleep(_POLL_SECONDS)
        finally:
            for _, process in running.values():
                process.terminate()
            try:
                for _, process in running.values():
                    process.wait()
            finally:  # after a second signal too
                os.close(lifeline)
                os.close(never_written)


class _Process(subprocess.Popen[bytes]):
    """A running job.

    `lifeline` is the reading end of a pipe, as standard input.
    """

    def __init__(self, job: Job, variables: dict[str, str], lifeline: int) -> None:
        self._log = job.log
        with job.log.open("ab") as log:
            self._earlier_bytes = os.fstat(log.fileno()).st_size
            super().__init__(
                job.command,
                stdin=lifeline,
                stdout=log,
                stderr=log,
                env={**os.environ, **variables, **SAFE_PATH, END_WITH_INPUT: "1"},
                start_new_session=True,  # Ctrl-C reaches only this process, which signals each job
            )

    def ended(self) -> Ended | None:
        """Return the end of the job, or `None` while it runs."""
        status = self.poll()
        if status is None:
            return None
        said = self._log.read_bytes()[self._earlier_bytes :].decode("utf-8", "replace")
        return Ended(status, "".join(said.splitlines()[-1:]))


def share(place: int, count: int) -> dict[str, str]:
    """Return environment variables that give one of several processes its share of the machine.

    >>> share(0, 10_000)["OMP_NUM_THREADS"]
    '1'
    """
    threads = str(max(1, torch.get_num_threads() // count))
    variables = {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads}  # torch, tokenizers
    gpus = torch.cuda.device_count()
    if gpus > 1:
        # A new process counts the machine's GPUs again, so pass the names from our own variable.
        given = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        names = given if len(given) >= gpus else list(map(str, range(gpus)))
        variables["CUDA_VISIBLE_DEVICES"] = names[place % gpus].strip()
    return variables


@dataclass(frozen=True)
class Cell:
    """One run of a comparison: row, folder and settings."""

    name: str
    folder: Path
    config: TrainConfig

    @property
    def log(self) -> Path:
        """File with the output of the cell's process."""
        return self.folder / "train.log"

    @property
    def finished(self) -> bool:
        """True if the run has its model, and its results, which it writes last."""
        run = Run(self.folder) if self.begun else None
        return run is not None and run.results is not None and not run.lacks_model

    @property
    def begun(self) -> bool:
        """True if the folder holds a run."""
        return begun(self.folder)

    def __str__(self) -> str:
        """Return the cell's name and seed."""
        return f"{self.name}, seed {self.config.seed}"


def require_runnable(cells: Sequence[Cell], jobs: int, engine: Engine) -> None:
    """Refuse cells that `run_cells` cannot run."""
    for cell in cells:
        if cell.begun:
            _require_same_settings(cell)
    if launched():
        if engine == "ray":
            raise UserError(
                "`engine` ray: several processes already share each run. Leave `engine` out"
            )
        if jobs > 1:
            raise UserError(f"`jobs` {jobs}: several processes already share each run. Give 1")


def run_cells(cells: Sequence[Cell], jobs: int, engine: Engine, progress: Progress) -> None:
    """Run all cells that are not finished; call `require_runnable` first.

    Several `jobs` divide the processor's threads and the GPUs among them, with the engine ray those
    of a cluster.
    """
    if jobs > 1 or engine == "ray":
        _side_by_side(cells, jobs, engine, progress)
    else:
        _one_by_one(cells, progress if is_main_process() else Silent())


def _require_same_settings(cell: Cell) -> None:
    there, wanted = to_dict(Run(cell.folder).config), to_dict(cell.config)
    changed = [name for name in wanted if name != "output" and there[name] != wanted[name]]
    if changed:
        name = changed[0]
        raise UserError(
            f"{cell.folder}: holds a run with other settings ({', '.join(changed)}: {name} was "
            f"{there[name]}, is {wanted[name]}). Give another `output`, or remove the folder"
        )


_OF_EACH = {"evaluation", "verdict", "use", "kept", AFTER}
"""Labels of lines, and titles of tables, that every cell shows."""


class SaidOnce:
    """Progress that shows lines and tables once, except the results of each cell."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._said = progress, set[str]()

    def bar(self, label: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
        """Show a bar."""
        return self._progress.bar(label, total, done)

    def line(self, label: str, text: str) -> None:
        """Show a line, unless it was already shown and is no result."""
        if self._is_new(f"{label} {text}") or label in _OF_EACH:
            self._progress.line(label, text)

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        """Show a table, unless it was already shown and is no result."""
        if self._is_new(f"{title} {rows}") or title in _OF_EACH:
            self._progress.table(title, rows)

    def _is_new(self, said: str) -> bool:
        """Remember a text, and return true if it is new."""
        new = said not in self._said
        self._said.add(said)
        return new


def _one_by_one(cells: Sequence[Cell], progress: Progress) -> None:
    for place, cell in enumerate(cells, start=1):
        if not cell.finished:
            progress.line("cell", f"{place} of {len(cells)}: {cell}")
            resume = cell.folder if cell.begun else None
            try:
                train(None if resume else cell.config, resume, progress)
            except Interrupted as error:  # the comparison says how to continue
                raise KeyboardInterrupt from error


def command_of_cell(run: Path) -> list[str]:
    """Return the command that resumes a run in another process with the same trust in its code."""
    words = [sys.executable, "-m", "isospace", "train", "--resume", str(run)]
    return words + ["--trust-remote-code"] * trusts_code()


def _side_by_side(cells: Sequence[Cell], jobs: int, engine: Engine, progress: Progress) -> None:
    """Run the unfinished cells, each in a process of its own with a log in its folder."""
    missing = [cell for cell in cells if not cell.finished]
    done = len(cells) - len(missing)
    progress.line("cells", f"{done} of {len(cells)} are there")

    def say(cell: Cell, what: str) -> None:
        progress.line("cell", f"{cells.index(cell) + 1} of {len(cells)}: {cell}: {what}")

    def begin(cell: Cell) -> Cell:
        if not cell.begun:
            Run.create(cell.config)
        say(cell, f"started; its progress: {cell.log}")
        return cell

    def begin_job(cell: Cell) -> Job:
        return Job(command_of_cell(begin(cell).folder), cell.log)

    def end(cell: Cell, ended: Ended) -> None:
        results = Run(cell.folder).results
        if ended.status != 0 or results is None:
            failure = UserError if ended.status == 2 else Stopped
            reason = ended.reason.removeprefix("isospace: ")
            raise failure(f"{cell}: {reason} (full log: {cell.log})")
        say(cell, f"done in {results.training.seconds:.0f} s")
        advance(1)

    with progress.bar("cells", len(cells), done) as advance:
        if engine == "ray":
            for cell, ended in map_on_cluster(_finisher, map(begin, missing), jobs):
                end(cell, ended)
        else:
            run_jobs(missing, jobs, begin_job, end)


def _finisher() -> Callable[[Cell], tuple[Cell, Ended]]:
    """Return the function with which a worker of a cluster finishes a started cell."""
    return lambda cell: (cell, _finish(cell))


def _finish(cell: Cell) -> Ended:
    """Finish a started cell in a worker of a cluster."""
    require_seen(cell.folder / "config.json")
    logger = logging.getLogger("isospace")
    logger.setLevel(logging.INFO)
    handler = logging.FileHandler(cell.log)
    logger.addHandler(handler)
    try:
        train(resume=cell.folder, progress=Logged())
    except Exception as error:  # reported like a command: exit status and one line
        logger.error("%s", error, exc_info=not isinstance(error, UserError | Stopped))
        return Ended(2 if isinstance(error, UserError) else 1, first_line(error))
    finally:
        logger.removeHandler(handler)
        handler.close()
    return Ended(0, "")
