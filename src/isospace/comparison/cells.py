"""The cells of a comparison: one run for each row and seed.

Cells run one after the other, or side by side in processes on this machine or on a cluster.
Finished cells are read, stopped ones are resumed, and the others are started.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from isospace.config import TrainConfig
from isospace.encoders.places import require_undamaged
from isospace.errors import Interrupted, Stopped, UserError, first_line
from isospace.system.cluster import Engine, map_on_cluster, require_seen
from isospace.system.consent import trusts_code
from isospace.system.jobs import Ended, Job, run_jobs
from isospace.system.launch import is_main_process, launched
from isospace.system.progress import Advance, Logged, Progress, Silent
from isospace.training.finish import AFTER
from isospace.training.run import Run, begun
from isospace.training.train import train

_FREE = ("output", "checkpoint_minutes", "trackers")
"""Settings that may change when a cell is resumed."""


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
        """True if the run has its results, which it writes last."""
        return self.begun and Run(self.folder).results is not None

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
        if cell.finished:
            require_undamaged(Run(cell.folder).model_folder)
    if launched():
        if engine == "ray":
            raise UserError(
                "`engine` ray: several processes already share each run. Leave `engine` out"
            )
        if jobs > 1:
            raise UserError(f"`jobs` {jobs}: several processes already share each run. Give 1")


def run_cells(cells: Sequence[Cell], jobs: int, engine: Engine, progress: Progress) -> bool:
    """Run all cells that are not finished; call `require_runnable` first.

    Several `jobs` divide the processor's threads and the GPUs among them, with the engine ray those
    of a cluster. If several processes share a run, the first has the results, and gets true.
    """
    if jobs > 1 or engine == "ray":
        _side_by_side(cells, jobs, engine, progress)
    else:
        _one_by_one(cells, progress if is_main_process() else Silent())
    return is_main_process()


def _require_same_settings(cell: Cell) -> None:
    there, wanted = Run(cell.folder).config.to_dict(), cell.config.to_dict()
    changed = [name for name in wanted if name not in _FREE and there[name] != wanted[name]]
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
