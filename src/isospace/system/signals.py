"""Ctrl-C, a polite kill or a closed terminal, as a flag that is looked at between steps."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

END_WITH_INPUT = "ISOSPACE_END_WITH_INPUT"
"""Environment variable of a process that ends politely where its standard input ends."""


def end_with_input() -> None:
    """Do what `END_WITH_INPUT` says: a parent that is killed cannot stop its children."""
    if os.environ.pop(END_WITH_INPUT, None) is not None:  # not for children of our own
        threading.Thread(target=_wait_for_its_end, daemon=True).start()


def _wait_for_its_end() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


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
