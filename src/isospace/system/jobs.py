"""Jobs: commands that run in parallel, each a process with a log and a share of the machine.

The jobs end with this process. On a signal to stop, it signals each job once. If it is killed, the
jobs' standard input ends, which `signals.end_with_input` treats as a request to stop.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from isospace.system.consent import SAFE_PATH
from isospace.system.signals import END_WITH_INPUT, polite_stop

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


def threads_of_each(count: int) -> int:
    """Return the number of threads for each of several processes that share this one's threads."""
    return max(1, torch.get_num_threads() // count)


def share(place: int, count: int) -> dict[str, str]:
    """Return environment variables that give one of several processes its share of the machine.

    >>> share(0, 10_000)["OMP_NUM_THREADS"]
    '1'
    """
    threads = str(threads_of_each(count))
    variables = {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads}  # torch, tokenizers
    gpus = torch.cuda.device_count()
    if gpus > 1:
        # A new process counts the machine's GPUs again, so pass the names from our own variable.
        given = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        names = given if len(given) >= gpus else list(map(str, range(gpus)))
        variables["CUDA_VISIBLE_DEVICES"] = names[place % gpus].strip()
    return variables
