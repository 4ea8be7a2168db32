"""Ctrl-C, a polite kill and a closed terminal: one signal ends the work, and none is lost."""

from __future__ import annotations

import multiprocessing
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


def end_with_parent() -> None:
    """The same for a process of `multiprocessing`, at once."""
    threading.Thread(target=_wait_for_the_parent, daemon=True).start()


def _wait_for_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class StopRequest:
    """The signals that `polite_stop` has received."""

    def __init__(self) -> None:
        self.received = False
        self._delayed = False

    @contextmanager
    def delayed(self) -> Iterator[None]:
        """Let a block end itself soon after `received` is true; a second signal insists.

        Raises:
            KeyboardInterrupt: the block took no notice of a signal.
        """
        self._delayed = True
        try:
            yield
        finally:
            self._delayed = False
        if self.received:
            raise KeyboardInterrupt

    def receive(self, *_: object) -> None:
        """The handler of the signals.

        Raises:
            KeyboardInterrupt: at once, but for the first signal of a `delayed` block.
        """
        wait = self._delayed and not self.received
        self.received = True
        if not wait:
            raise KeyboardInterrupt


@contextmanager
def polite_stop() -> Iterator[StopRequest]:
    """Make SIGINT and SIGTERM, and SIGHUP where `nohup` does not ignore it, end a block.

    Raises:
        KeyboardInterrupt: where a signal came, at the end of the block at the latest: what swallows
            exceptions, such as a finaliser, swallows no request.
    """
    request = StopRequest()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    # What a program that embeds Python has set could not be put back.
    numbers = [number for number in numbers if signal.getsignal(number) is not None]
    try:
        old = {number: signal.signal(number, request.receive) for number in numbers}
    except ValueError:  # not the main thread: whoever runs us handles signals
        old = {}
    try:
        yield request
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    if request.received:
        raise KeyboardInterrupt
