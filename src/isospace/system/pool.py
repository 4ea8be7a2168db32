"""Parallel work on this machine: in threads, and in worker processes.

The workers are new interpreters, because a fork of a process with threads can hang.
`cluster.map_on_cluster` does the same on the machines of a cluster.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from itertools import islice
from typing import Any, TypeVar

import torch
from transformers.utils.logging import disable_progress_bar

from isospace.system.consent import trusting_code, trusts_code
from isospace.system.jobs import threads_of_each
from isospace.system.signals import end_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")

_POLL_SECONDS = 0.5


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], one_thread: bool = False
) -> Iterator[Result]:
    """Apply a function to items in parallel; give the results in the order of the items.

    The items share PyTorch's threads. Small matrix products are faster in parallel, one thread
    each, than one after the other on all threads. Settings that belong to a thread (autocast,
    inference mode) must be made in `work`.

    With `one_thread`, each item has one thread, so that sums round alike with any number of
    threads. By default, fewer items than threads get several threads each.

    >>> list(side_by_side(len, ["one", "three"]))
    [3, 5]
    """
    threads = torch.get_num_threads()
    workers = max(1, min(threads, len(items)))
    each = 1 if one_thread else threads // workers
    if workers == 1 and each == threads:
        yield from map(work, items)
        return
    try:
        with ThreadPoolExecutor(
            workers, initializer=torch.set_num_threads, initargs=(each,)
        ) as pool:
            yield from pool.map(work, items)
    finally:
        torch.set_num_threads(threads)  # the number for new threads is shared by all threads


class Tally:
    """A counter that workers add to and their parent reads; it also tells workers to stop."""

    def __init__(self, context: Any) -> None:
        self._count, self._stop = context.Value("q", 0), context.Event()

    def add(self, count: int) -> None:
        """Add to the counter; raise InterruptedError if the parent is stopping."""
        if self._stop.is_set():
            raise InterruptedError
        with self._count.get_lock():
            self._count.value += count

    def take(self) -> int:
        """Return the counter, and set it to 0."""
        with self._count.get_lock():
            count, self._count.value = int(self._count.value), 0
        return count

    def stop(self) -> None:
        """Tell the workers to stop."""
        self._stop.set()


def map_in_processes(
    begin: Callable[[Tally], Callable[[Item], Result]],
    items: Iterator[Item],
    at_once: int,
    tick: Callable[[int], None],
) -> Iterator[Result]:
    """Apply a function to items in worker processes, and give results as they are finished.

    Workers share the processor's threads and the GPUs.

    Args:
        begin: makes the function in every worker; the function adds to the tally as it works.
        items: the items.
        at_once: number of workers.
        tick: is called with the amount added to the tally, at least twice a second.

    Raises:
        Exception: an error of `begin` or of the function.
        BrokenProcessPool: a worker was killed.
    """
    context = multiprocessing.get_context("spawn")
    tally, started = Tally(context), context.Value("q", 0)
    initial = begin, tally, started, threads_of_each(at_once), trusts_code()
    executor = ProcessPoolExecutor(at_once, context, _enter, initial)
    running: set[Future[Result]] = set()
    try:
        while True:
            for item in islice(items, at_once + 1 - len(running)):
                running.add(executor.submit(_work, item))
            if not running:
                return
            finished, running = wait(running, _POLL_SECONDS, FIRST_COMPLETED)
            tick(tally.take())
            for future in finished:
                yield future.result()
    finally:
        tally.stop()
        executor.shutdown(cancel_futures=True)


_function: Callable[[Any], Any]
"""The function of this worker."""


def _enter(
    begin: Callable[[Tally], Callable[[Any], Any]],
    tally: Tally,
    started: Any,
    threads: int,
    trusted: bool,
) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent stops the workers
    end_with_parent()
    os.environ["RAYON_NUM_THREADS"] = str(threads)  # threads of the tokenizer
    torch.set_num_threads(threads)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    if torch.cuda.is_available():
        with started.get_lock():
            torch.cuda.set_device(started.value % torch.cuda.device_count())
            started.value += 1
    with trusting_code(trusted):
        _function = begin(tally)


def _work(item: Any) -> Any:
    return _function(item)
