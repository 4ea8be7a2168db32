"""The cores of the CPU, each with work of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], one_thread: bool = False
) -> Iterator[Result]:
    """Results in the order of the items, which share PyTorch's threads between them.

    Small matrix products finish sooner side by side, one thread each, than one after the other on
    all threads, and what Python does in between is hidden. Settings that belong to a thread
    (autocast, inference mode) are for `work` to make. Fewer items than threads have several threads
    each, except with `one_thread`, which makes sums round alike however many threads there are.

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
        torch.set_num_threads(threads)  # what threads to come start with is one for all
