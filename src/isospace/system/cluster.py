"""Work on a Ray cluster: Ray distributes the work, and repeats it if a machine fails.

The cluster is that of Ray's variable RAY_ADDRESS, or of this machine; else Ray starts one here.
isospace must be installed on every machine, because workers import it.
"""

from __future__ import annotations

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
from isospace.system.consent import trusting_code, trusts_code
from isospace.system.imports import import_extra

Engine = Literal["local", "ray"]
Item = TypeVar("Item")
Result = TypeVar("Result")

_CONNECT_SECONDS = 10
_RETRIES = 3
"""Number of retries of an item whose worker died; an item that kills more workers is the cause."""
_AHEAD = 2
"""Largest number of items per worker that are started but not yet returned, if order matters."""


@contextmanager
def connected(engine: Engine) -> Iterator[None]:
    """Connect to a cluster for `map_on_cluster`, if the engine needs one.

    An earlier connection is kept open at the end. Ray's own messages go to standard error.
    """
    if engine == "local":
        yield
        return
    ray = _ray()
    with redirect_stdout(sys.stderr):
        ours = not ray.is_initialized()
        if ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # for a cluster started here
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
    """Apply a function to items, in workers that each set up the function once.

    Args:
        begin: makes the function in every worker. `begin` and the items must be picklable.
        items: the items, read one ahead as workers become free.
        at_once: number of workers; they share the cluster's processors, or have a GPU each.
        in_order: return results in the order of the items, and not as they are finished.

    Raises:
        Exception: an error of `begin` or of the function.
        Stopped: workers died repeatedly on one item.
    """
    pool = _Pool(begin, at_once)
    following = deque(islice(items, 1))
    waiting: deque[_Task] = deque()  # tasks whose results are not returned yet, in order
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
    """Refuse, in a worker, a machine that does not see `path`, a file that was written before."""
    if not path.is_file():
        raise UserError(
            f"`output`: the machine {socket.gethostname()} does not see {path}. All machines of a "
            "cluster write into one folder: give one that they share"
        )


@dataclass(eq=False)
class _Task:
    """An item to work on, or only the start of a worker; `deaths` counts those that died on it."""

    item: Any
    starts: bool = False
    result: Any = None
    done: bool = False
    deaths: int = 0


class _Pool:
    """Workers that each set up their function once; workers that die are replaced.

    Ray could replace them too, but gives up within seconds if a whole machine is gone.
    """

    def __init__(self, begin: Callable[[], Callable[[Any], Any]], count: int) -> None:
        self._ray = _ray()
        share = _share(self._ray, count)
        self._class = self._ray.remote(**share)(_Worker)
        enter = partial(_in_place_of, os.getcwd(), trusts_code(), share["num_cpus"])
        self._arguments = enter, begin
        self._workers: list[Any] = []
        self._running: dict[Any, tuple[Any, _Task]] = {}
        self._again: deque[_Task] = deque()  # tasks to repeat, because their workers died
        self.idle: list[Any] = []
        for _ in range(count):  # the cluster may have no room for some, now or ever
            self._start(_Task(None, starts=True))

    def _start(self, task: _Task) -> None:
        worker = self._class.remote(*self._arguments)
        self._workers.append(worker)
        self._running[worker.start.remote()] = worker, task

    def send(self, task: _Task) -> None:
        worker = self.idle.pop()
        self._running[worker.work.remote(task.item)] = worker, task

    def wait(self) -> None:
        """Wait until a task is finished or a worker has died; replace a dead worker."""
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
                if not task.starts:  # another worker repeats it, and a new one starts
                    self._again.append(task)
                    task = _Task(None, starts=True)
                self._start(task)
        while self.idle and self._again:
            self.send(self._again.popleft())

    def end(self) -> None:
        for worker in self._workers:
            self._ray.kill(worker)


class _Worker:
    """A process that sets up its function with the first item; Ray would hide an earlier error."""

    def __init__(
        self,
        enter: Callable[[], AbstractContextManager[None]],
        begin: Callable[[], Callable[[Any], Any]],
    ) -> None:
        self._enter, self._begin = enter, begin
        self._work: Callable[[Any], Any] | None = None

    def start(self) -> None:
        """Return at once; the answer shows that the cluster has room for this worker."""

    def work(self, item: Any) -> Any:
        with self._enter():
            if self._work is None:
                self._work = self._begin()
            return self._work(item)


@contextmanager
def _in_place_of(folder: str, trusted: bool, threads: int) -> Iterator[None]:
    """Take over folder and trust of the process that started the work, and set the threads."""
    import torch

    if Path(folder).is_dir():
        os.chdir(folder)
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    with trusting_code(trusted):
        yield


def _reach(address: str) -> None:
    """Try to connect to HOST:PORT, because Ray itself tries for minutes before it gives up."""
    host, colon, port = address.split("://")[-1].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()


def _ray() -> Any:
    return import_extra("`engine` ray", "ray", "ray")


def _share(ray: Any, count: int) -> dict[str, int]:
    """Return the resources of each worker: as many processors as possible with all running."""
    machines = [machine["Resources"] for machine in ray.nodes() if machine["Alive"]]
    if not machines:
        raise Stopped("`engine` ray: no machine of the cluster is alive. Start it again")
    processors = processors_of_each(count, [int(machine.get("CPU", 0)) for machine in machines])
    return {
        "num_cpus": processors,
        "num_gpus": int(any(machine.get("GPU", 0) for machine in machines)),
    }


def processors_of_each(count: int, processors: Sequence[int]) -> int:
    """Return the number of processors for each of `count` workers; none spans two machines.

    >>> processors_of_each(2, [8, 8]), processors_of_each(3, [8, 8]), processors_of_each(99, [8, 8])
    (8, 4, 1)
    """
    for each in range(max(processors), 1, -1):
        if sum(of_one // each for of_one in processors) >= count:
            return each
    return 1
