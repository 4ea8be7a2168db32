"""Progress of long work, and warnings: lines, tables and bars, which the command line draws.

Python users pass their own `Progress`, or read the lines in the log `isospace`
(`logging.basicConfig(level=logging.INFO)` shows them).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from isospace.system.signals import is_main_process

logger = logging.getLogger("isospace")


class Advance(Protocol):
    """Function that advances a bar."""

    def __call__(self, amount: int, note: str = "", /) -> None:
        """Advance by `amount`; `note` is a short text on the current state."""


class Progress(Protocol):
    """Display of the progress of long work."""

    def line(self, label: str, text: str) -> None:
        """Show one line: a short label, and a text."""

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        """Show a table; a row is column -> cell."""

    def bar(self, label: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
        """Show a bar for `total` units of work, `done` of them finished; give its `Advance`."""


class Logged:
    """Lines in Python's log: the default if no `Progress` is passed."""

    def line(self, label: str, text: str) -> None:
        """Log a line at level INFO."""
        logger.info("%s %s", label, text)

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        """Log a line for each row."""
        for row in rows:
            logger.info("%s: %s", title, ", ".join(f"{k} {v}" for k, v in row.items() if v))

    @contextmanager
    def bar(self, label: str, total: int, done: int = 0) -> Iterator[Advance]:
        """Show no bar."""
        yield _ignore


class Silent(Logged):
    """No output, for all processes except the first, which shows the same lines."""

    def line(self, label: str, text: str) -> None:
        """Show nothing."""

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        """Show nothing."""


def _ignore(amount: int, note: str = "", /) -> None:
    pass


@functools.cache
def warn_once(logger: logging.Logger, text: str) -> None:
    """Log a warning once, and only in the first of the processes that share the work."""
    if is_main_process():
        logger.warning("%s", text)


@contextmanager
def log_level(name: str, level: int) -> Iterator[None]:
    """Give a logger another level within the context."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
