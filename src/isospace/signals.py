"""Ctrl-C, a polite kill or a closed terminal, as a flag that is looked at between steps."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def polite_stop() -> Iterator[list[int]]:
    """Collect signals instead of dying in the middle of a step; a second one insists.

    SIGINT, SIGTERM, and SIGHUP where nobody (`nohup`) has it ignored.
    """
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    try:
        old = {number: signal.signal(number, note) for number in numbers}
    except ValueError:  # not the main thread: whoever runs us handles signals
        old = {}
    try:
        yield received
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
