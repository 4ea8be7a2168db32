"""The cells of a comparison: one run for each row and seed, in this process or in several."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

from isospace.config import TrainConfig
from isospace.errors import Interrupted, Stopped, UserError
from isospace.system.cluster import Engine, map_on_cluster, require_seen
from isospace.system.consent import SAFE_PATH, trusts_code
from isospace.system.progress import Advance, Progress, Silent
from isospace.system.settings import to_dict
from isospace.system.signals import END_WITH_INPUT, is_main_process, launched
from isospace.training.run import Run, begun
from isospace.training.train import AFTER, train

Item = TypeVar("Item")


@dataclass(frozen=True)
class Ended:
    """The end of a process: its exit status (-N if signal N killed it) and its last line."""

    status: int
    last_line: str

    @property
    def reason(self) -> str:
        """Reason for a failure, for messages."""
        if self.status < 0:
            hint = "9 by the system: was there memory enough?"
            return f"was killed by signal {-self.status} ({hint})"
        return self.last_line or f"exit status {self.status}"


@contextmanager
def lifeline() -> Iterator[int]:
    """Give a standard input for processes that must not outlive this block or this process.

    It ends with them, which `signals.end_with_input` treats as a request to stop.
    """
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(writing)
        os.close(reading)


def run_process(command: Sequence[str], log: Path, place: int, at_once: int, stdin: int) -> Ended:
    """Run a command as one of several at once, and append its output to a log."""
    with log.open("ab") as output:
        earlier = os.fstat(output.fileno()).st_size
        status = subprocess.run(
            command,
            stdin=stdin,
            stdout=output,
            stderr=output,
            env={**os.environ, **share(place, at_once), **SAFE_PATH, END_WITH_INPUT: "1"},
            start_new_session=True,  # Ctrl-C reaches only this process, which ends the lifeline
            check=False,
        ).returncode
    said = log.read_bytes()[earlier:].decode("utf-8", "replace")
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


def run_at_once(
    items: Iterable[Item], at_once: int, run: Callable[[Item, int, int], Ended]
) -> Iterator[tuple[Item, Ended]]:
    """Run a process for each item, several at a time, and yield their ends.

    `run` gets the item, its place among those at once, and the standard input of the process.
    Close the iterator, since its end, an error or a signal also ends the processes politely.
    """
    places: SimpleQueue[int] = SimpleQueue()
    for place in range(at_once):
        places.put(place)

    def at_a_place(item: Item) -> tuple[Item, Ended]:
        place = places.get()
        try:
            return item, run(item, place, stdin)
        finally:
            places.put(place)

    items = iter(items)
    with ThreadPoolExecutor(at_once) as pool, lifeline() as stdin:
        running = {pool.submit(at_a_place, item) for item in islice(items, at_once)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
            running |= {pool.submit(at_a_place, item) for item in islice(items, len(done))}


_FREE = ("output", "trackers")
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
    if launched() and (jobs > 1 or engine == "ray"):
        raise UserError("several processes already share each run: leave out `jobs` and `engine`")


def run_cells(cells: Sequence[Cell], jobs: int, engine: Engine, progress: Progress) -> None:
    """Start or resume all cells that are not finished; call `require_runnable` first.

    Several `jobs` divide the processor's threads and the GPUs, or those of a cluster, among them.
    """
    if jobs > 1 or engine == "ray":
        _side_by_side(cells, jobs, engine, progress)
    else:
        _one_by_one(cells, progress if is_main_process() else Silent())


def _require_same_settings(cell: Cell) -> None:
    there, wanted = to_dict(Run(cell.folder).config), to_dict(cell.config)
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
    """Progress that shows equal lines and tables once, except the results of each cell."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._said = progress, set[tuple[str, str]]()

    def bar(self, label: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
        """Show a bar."""
        return self._progress.bar(label, total, done)

    def line(self, label: str, text: str) -> None:
        """Show a line, unless it was already shown and is no result."""
        if self._is_new(label, text):
            self._progress.line(label, text)

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        """Show a table, unless it was already shown and is no result."""
        if self._is_new(title, str(rows)):
            self._progress.table(title, rows)

    def _is_new(self, name: str, content: str) -> bool:
        new = (name, content) not in self._said or name in _OF_EACH
        self._said.add((name, content))
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

    def here(cell: Cell, place: int, stdin: int) -> Ended:
        return run_process(command_of_cell(begin(cell).folder), cell.log, place, jobs, stdin)

    running: Any = None
    if engine == "ray":
        running = map_on_cluster(lambda: _on_cluster, map(begin, missing), jobs)
    else:
        running = run_at_once(missing, jobs, here)
    # Closed, since an error in the loop would keep the generator, and so the processes.
    with progress.bar("cells", len(cells), done) as advance, closing(running):
        for cell, ended in running:
            results = Run(cell.folder).results
            if ended.status != 0 or results is None:
                failure = UserError if ended.status == 2 else Stopped
                reason = ended.reason.removeprefix("isospace: ")
                raise failure(f"{cell}: {reason} (full log: {cell.log})")
            say(cell, f"done in {results.training.seconds:.0f} s")
            advance(1)


def _on_cluster(cell: Cell) -> tuple[Cell, Ended]:
    """Finish a started cell on a machine of a cluster."""
    require_seen(cell.folder / "config.json")
    with lifeline() as stdin:
        return cell, run_process(command_of_cell(cell.folder), cell.log, 0, 1, stdin)
