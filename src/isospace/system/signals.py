"""Signals that end the work once, and the place of this process among those that share a run.

Ctrl-C, SIGTERM or a closed terminal end the work, and no signal is lost.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

END_WITH_INPUT = "ISOSPACE_END_WITH_INPUT"
"""Environment variable that makes a process stop when its standard input ends."""


def end_with_input() -> None:
    """Stop this process when its standard input ends, if `END_WITH_INPUT` is set.

    The end of a parent that is killed closes the standard input of its children.
    """
    if os.environ.pop(END_WITH_INPUT, None) is not None:  # our own children must not inherit it
        threading.Thread(target=_wait_for_its_end, daemon=True).start()


def _wait_for_its_end() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


class StopRequest:
    """The signals that `polite_stop` has received."""

    def __init__(self) -> None:
        self.received = False
        self._delayed = False

    @contextmanager
    def delayed(self) -> Iterator[None]:
        """Let a block end itself soon after `received` is true; a second signal ends it at once.

        Raises:
            KeyboardInterrupt: a signal came; raised at the end of the block.
        """
        self._delayed = True
        try:
            yield
        finally:
            self._delayed = False
        if self.received:
            raise KeyboardInterrupt

    def receive(self, *_: object) -> None:
        """Raise KeyboardInterrupt, except for the first signal in a `delayed` block."""
        wait = self._delayed and not self.received
        self.received = True
        if not wait:
            raise KeyboardInterrupt


@contextmanager
def polite_stop() -> Iterator[StopRequest]:
    """Make SIGINT, SIGTERM and SIGHUP (unless ignored, as under `nohup`) end a block.

    Raises:
        KeyboardInterrupt: a signal came. It is raised again at the end of the block, in case a
            finaliser or other code has swallowed the first one.
    """
    request = StopRequest()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    # A handler set by a program that embeds Python (`None` here) could not be restored.
    numbers = [number for number in numbers if signal.getsignal(number) is not None]
    try:
        old = {number: signal.signal(number, request.receive) for number in numbers}
    except ValueError:  # not the main thread, where the caller handles signals
        old = {}
    try:
        yield request
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    if request.received:
        raise KeyboardInterrupt


def launched() -> bool:
    """Return true if a launcher started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_main_process() -> bool:
    """Return true in the first of the processes that share the work, or if there is only one."""
    return os.environ.get("RANK", "0") == "0"


def is_lost_peer_error(error: Exception) -> bool:
    """Return true if the cause of an error is that another process of the same work has ended."""
    import torch.distributed as dist

    return launched() and (isinstance(error, dist.DistError) or "gloo" in str(error))
