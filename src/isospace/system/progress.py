"""Progress of long work: lines, tables and bars, which the command line draws.

Nothing below the commands prints. Python users pass a `Progress` of their own, or read the lines in
the log `isospace` (`logging.basicConfig(level=logging.INFO)` shows them).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

logger = logging.getLogger("isospace")


class Advance(Protocol):
    """Moves a bar on."""

    def __call__(self, amount: int, note: str = "", /) -> None:
        """Move by `amount`; `note` says in a few words how it goes."""


class Progress(Protocol):
    """Shows how work goes on."""

    def line(self, label: str, text: str) -> None:
        """One line of the note: a short label and what happened."""

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        """Rows of cells, column -> cell."""

    def bar(self, label: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
        """A bar for work that is counted, of which `done` is done; gives what moves it on."""


class Logged:
    """The lines, in Python's log: what is used where nobody passes a `Progress`."""

    def line(self, label: str, text: str) -> None:
        """Log at level INFO."""
        logger.info("%s %s", label, text)

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        """Log a line for each row."""
        for row in rows:
            logger.info("%s: %s", title, ", ".join(f"{k} {v}" for k, v in row.items() if v))

    @contextmanager
    def bar(self, label: str, total: int, done: int = 0) -> Iterator[Advance]:
        """No bar."""
        yield _ignore


class Silent(Logged):
    """Nothing: for the processes beside the first, whose note is the same."""

    def line(self, label: str, text: str) -> None:
        """Nothing."""

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        """Nothing."""


def _ignore(amount: int, note: str = "", /) -> None:
    pass
