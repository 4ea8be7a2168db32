"""The cores of the CPU, each with work of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Results in the order of the items, which share PyTorch's threads between them.

    Small matrix products finish sooner side by side, one thread each, than one after the other on
    all threads, and what Python does in between is hidden. Settings that belong to a thread
    (autocast, inference mode) are for `work` to make.

    >>> list(side_by_side(len, ["one", "three"]))
    [3, 5]
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(items))
    if workers < 2:
        yield from map(work, items)
        return
    try:
        with ThreadPoolExecutor(
            workers, initializer=torch.set_num_threads, initargs=(threads // workers,)
        ) as pool:
            yield from pool.map(work, items)
    finally:
        torch.set_num_threads(threads)  # what threads to come start with is one for all
