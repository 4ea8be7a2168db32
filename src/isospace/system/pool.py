"""Parallel work on this machine, in threads."""

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
