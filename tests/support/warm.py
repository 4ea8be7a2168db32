"""Processes that start in half a second: forked from a server that has imported the libraries.

A new interpreter imports them for six seconds and more. These processes have not seen isospace, and
they can be killed, stopped and be several that share a run as those that a user starts.
"""

import ctypes
import gc
import multiprocessing
import os
import socket
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    """
    torch.distributed torch.nn.parallel transformers.models.bert.modeling_bert
    sentence_transformers accelerate pyarrow.parquet pydantic bm25s scipy.stats altair
    rich.progress
    """.split()
)


@dataclass(frozen=True)
class Place:
    """What a new process would have from the one that starts it; the server has that of its own."""

    environment: dict[str, str]
    folder: str
    streams: list[str]
    threads: int

    def enter(self):
        for number, name in enumerate(self.streams, start=1):
            with open(name, "wb") as file:
                os.dup2(file.fileno(), number)
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        torch.set_num_threads(self.threads)


_started = []
_MEASURING = {"train", "adapt", "compare", "whiten"}
"""Commands that measure other text."""
LESS_OTHER_TEXT = "ISOSPACE_TESTS_LESS_OTHER_TEXT"
"""Environment variable by which the processes of tests measure less other text too."""


class WarmProcess:
    """A function in a process of its own, which ends as an interpreter does.

    Args:
        function: of a module in tests/support, or of a library.
        *arguments: its arguments.
        **environment: variables that differ from this process's."""

    out = err = ""

    def __init__(self, function, *arguments, **environment):
        self._folder = tempfile.TemporaryDirectory(prefix="warm-")
        streams = [str(Path(self._folder.name, name)) for name in ("out", "err")]
        place = Place({**os.environ, **environment}, os.getcwd(), streams, torch.get_num_threads())
        self._process = SERVER.Process(target=_work, args=(function, arguments, place))
        self._process.start()
        _started.append(self)

    @property
    def pid(self):
        return self._process.pid

    @property
    def running(self):
        return self._process.is_alive()

    def send(self, number):
        os.kill(self.pid, number)

    def wait(self, seconds=300):
        """Its exit status; of one that was killed, the signal's number, negative."""
        self._process.join(seconds)
        status = self._process.exitcode
        self.end()
        assert status is not None, f"was still running after {seconds} s: {self.err}"
        return status

    def end(self):
        """Kill it where it still runs, and keep what it printed."""
        if self in _started:
            _started.remove(self)
            self._process.kill()
            self._process.join()
            self.out, self.err = (self._read(name) for name in ("out", "err"))
            self._folder.cleanup()

    def _read(self, name):
        path = Path(self._folder.name, name)
        return path.read_text(encoding="utf-8") if path.exists() else ""


def end_all():
    """End what a failed test has left running."""
    for process in list(_started):
        process.end()


def isospace(*words):
    return WarmProcess(isospace_main, [str(word) for word in words])


def together(count, function, *arguments):
    """Processes that find each other, as those do that torchrun starts."""
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    shared = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    shared |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(count))
    return [
        WarmProcess(function, *arguments, **shared, RANK=str(rank), LOCAL_RANK=str(rank))
        for rank in range(count)
    ]


def run_together(count, function, *arguments):
    """Such processes from start to end, which must be a good one."""
    processes = together(count, function, *arguments)
    statuses = [process.wait() for process in processes]
    assert statuses == [0] * count, "\n".join(process.err for process in processes)


def isospace_main(words):
    """`isospace` in a process of `together`."""
    from isospace.cli import main

    if LESS_OTHER_TEXT in os.environ and words[0] in _MEASURING:
        measure_less_other_text()
    return main(words)


def measure_less_other_text():
    """Measure a tenth of the other text in this process; few tests are about it."""
    from isospace.evaluation import other_text

    whole = other_text.carried

    def some(name, part):
        pairs = whole(name, part)
        return pairs.take(range(0, len(pairs), len(pairs) // 40))

    other_text.carried = some


def _work(function, arguments, place):
    gc.freeze()  # at its end it collects what is its own, and not the libraries of the server
    place.enter()
    try:
        result = function(*arguments)
        status = result if isinstance(result, int) else 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.pythonapi.Py_Exit(status)  # with everything that an interpreter does at its end
