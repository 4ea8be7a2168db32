"""Work on a Ray cluster: Ray says which machine does what, and gives it out again where one fails.

The cluster is the one that Ray's own variable RAY_ADDRESS names, or that this machine is part of;
without either, Ray begins one of this machine alone. `jobs` is the same for one machine, without
Ray. Workers import isospace, so it is installed on every machine of the cluster.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Literal, TypeVar

from isospace.errors import Stopped, UserError, first_line
from isospace.system.trust import trusting_code, trusts_code

Engine = Literal["local", "ray"]
Item = TypeVar("Item")
Result = TypeVar("Result")

_CONNECT_SECONDS = 10
_RETRIES = 3
"""How often an item is begun again whose worker died; one that kills its workers is no accident."""
_AHEAD = 2
"""Results for each worker, at most, that wait for an earlier one where they are given in order."""


@contextmanager
def connected(engine: Engine) -> Iterator[None]:
    """A cluster for `map_on_cluster`, where the engine needs one.

    A connection that there was before stays. What Ray itself says goes to the standard error.

    Raises:
        UserError: Ray is not installed, or there is no cluster where RAY_ADDRESS says.
    """
    if engine == "local":
        yield
        return
    try:
        ray = _ray()
    except ImportError as error:
        raise UserError("`engine` ray needs Ray: pip install 'isospace[ray]'") from error
    with redirect_stdout(sys.stderr):
        ours = not ray.is_initialized()
        if ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster begun here
            address = os.environ.get("RAY_ADDRESS", "")
            try:
                _reach(address)
                ray.init(log_to_driver=False, logging_level=logging.ERROR)
            except (OSError, ValueError, RuntimeError) as error:
                where = f" at RAY_ADDRESS {address}" if address else ""
                raise UserError(
                    f"`engine` ray: cannot reach a cluster{where}: {first_line(error)}"
                ) from error
        try:
            yield
        finally:
            if ours:
                ray.shutdown()


def map_on_cluster(
    begin: Callable[[], Callable[[Item], Result]],
    items: Iterator[Item],
    at_once: int,
    in_order: bool = False,
) -> Iterator[Result]:
    """Apply a function to items, by workers that each begin once.

    Args:
        begin: makes the function, in every worker; it and the items can be pickled.
        items: read as workers come free, one ahead.
        at_once: workers; they share the cluster's processors, or have a GPU each.
        in_order: give results in the order of the items; else as they come.

    Raises:
        Exception: what `begin` or the function raised.
        Stopped: workers died again and again over one item.
    """
    pool = _Pool(begin, at_once)
    following = deque(islice(items, 1))
    waiting: deque[_Task] = deque()  # of what was not given yet, in order
    try:
        while following or waiting:
            while pool.idle and following and not (in_order and len(waiting) >= _AHEAD * at_once):
                waiting.append(_Task(following.popleft()))
                pool.send(waiting[-1])
                following.extend(islice(items, 1))
            pool.wait()
            there = [task for task in waiting if task.done]
            if in_order:
                there = list(takewhile(lambda task: task.done, waiting))
            for task in there:
                waiting.remove(task)
                yield task.result
    finally:
        pool.end()


def require_seen(path: Path) -> None:
    """Refuse, in a worker, an output of which it sees nothing.

    Raises:
        UserError: this file, which is there before any worker begins, is not there.
    """
    if not path.is_file():
        raise UserError(
            f"`output`: the machine {socket.gethostname()} does not see {path}. All machines of a "
            "cluster write into one folder: give one that they share"
        )


@dataclass(eq=False)
class _Task:
    """A task of a worker: to work on an item, or only to start."""

    item: Any
    starts: bool = False
    result: Any = None
    done: bool = False
    deaths: int = 0


class _Pool:
    """Workers that each begin once; those that die are replaced.

    Ray would do that too, and gives up within seconds where a whole machine is gone.

    Attributes:
        idle: workers that have nothing to do.
    """

    def __init__(self, begin: Callable[[], Callable[[Any], Any]], count: int) -> None:
        self._ray = _ray()
        share = _share(self._ray, count)
        self._class = self._ray.remote(**share)(_Worker)
        self._arguments = (
            partial(_in_place_of, os.getcwd(), trusts_code(), share["num_cpus"]),
            begin,
        )
        self._workers: list[Any] = []
        self._running: dict[Any, tuple[Any, _Task]] = {}
        self._again: deque[_Task] = deque()  # whose workers died
        self.idle: list[Any] = []
        for _ in range(count):  # there may be no place for some of them, now or ever
            self._start(_Task(None, starts=True))

    def _start(self, task: _Task) -> None:
        worker = self._class.remote(*self._arguments)
        self._workers.append(worker)
        self._running[worker.start.remote()] = worker, task

    def send(self, task: _Task) -> None:
        """Have an idle worker do something."""
        worker = self.idle.pop()
        self._running[worker.work.remote(task.item)] = worker, task

    def wait(self) -> None:
        """Until something is done, or somebody has died.

        Raises:
            Exception: what a worker raised.
            Stopped: workers died again and again over one task.
        """
        for result in self._ray.wait(list(self._running))[0]:
            worker, task = self._running.pop(result)
            try:
                task.result, task.done = self._ray.get(result), True
                self.idle.append(worker)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except self._ray.exceptions.RayError as error:  # the worker has died
                self._ray.kill(worker)
                task.deaths += 1
                if task.deaths > _RETRIES:
                    raise Stopped(
                        f"`engine` ray: {task.deaths} workers died on the same work, perhaps "
                        f"because memory ran out ({first_line(error)}). What is finished is kept: "
                        "run the same command again"
                    ) from error
                if not task.starts:
                    self._again.append(task)
                self._start(task if task.starts else _Task(None, starts=True))
        while self.idle and self._again:
            self.send(self._again.popleft())

    def end(self) -> None:
        """End all of them."""
        for worker in self._workers:
            self._ray.kill(worker)


class _Worker:
    """A process with what an item needs, which is made for the first one.

    Not before: an error there would be said of a worker that cannot start, and not of the item.
    """

    def __init__(
        self,
        enter: Callable[[], AbstractContextManager[None]],
        begin: Callable[[], Callable[[Any], Any]],
    ) -> None:
        self._enter, self._begin = enter, begin
        self._work: Callable[[Any], Any] | None = None

    def start(self) -> None:
        """Say that there is a place for this worker."""

    def work(self, item: Any) -> Any:
        with self._enter():
            if self._work is None:
                self._work = self._begin()
            return self._work(item)


@contextmanager
def _in_place_of(folder: str, trusted: bool, threads: int) -> Iterator[None]:
    """Take the place of the process that asked: relative paths mean what they do there.

    Args:
        folder: where that process is.
        trusted: whether it lets code run that comes with models.
        threads: for PyTorch, and for the tokenizer.
    """
    import torch

    if Path(folder).is_dir():
        os.chdir(folder)
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    with trusting_code(trusted):
        yield


def _reach(address: str) -> None:
    """Knock at HOST:PORT, since Ray itself asks for minutes before it gives up.

    Raises:
        OSError: nobody is there.
    """
    host, colon, port = address.split("://")[-1].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()


def _ray() -> Any:
    return importlib.import_module("ray")


def _share(ray: Any, count: int) -> dict[str, int]:
    """Return the resources of each worker: as many processors as let all run at once."""
    machines = [machine["Resources"] for machine in ray.nodes() if machine["Alive"]]
    processors = processors_of_each(count, [int(machine.get("CPU", 0)) for machine in machines])
    return {
        "num_cpus": processors,
        "num_gpus": int(any(machine.get("GPU", 0) for machine in machines)),
    }


def processors_of_each(count: int, processors: Sequence[int]) -> int:
    """Processors for each of several workers, none of which spans two machines.

    Args:
        count: of workers.
        processors: of each machine.

    >>> processors_of_each(2, [8, 8]), processors_of_each(3, [8, 8]), processors_of_each(99, [8, 8])
    (8, 4, 1)
    """
    for each in range(max(processors), 1, -1):
        if sum(of_one // each for of_one in processors) >= count:
            return each
    return 1
