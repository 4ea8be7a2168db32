"""What a person sees while something runs: lines, bars, tables. All of it on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console as Terminal
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from isospace.commands.options import as_options
from isospace.commands.tables import draw_table
from isospace.system.progress import Advance


class Console:
    """A `Progress` for people.

    Args:
        quiet: show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.terminal = Terminal(
            stderr=True, quiet=quiet, highlight=False, markup=False, emoji=False
        )

    def line(self, label: str, text: str) -> None:
        """One line of the story: a short label and what happened."""
        line = Text.assemble((f"{label:<9} ", "bold"), as_options(text))
        self.terminal.print(line, soft_wrap=True)

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        """Rows of cells under a title."""
        if not self.terminal.quiet:
            draw_table(self.terminal, title, rows)

    @contextmanager
    def bar(self, label: str, total: int, done: int = 0) -> Iterator[Advance]:
        """A bar; where standard error is no terminal, a line at each tenth of longer work."""
        bar = Progress(
            TextColumn("{task.description:<9}", style="bold", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[story]}", markup=False),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=self.terminal,
            transient=True,
            disable=not self.terminal.is_terminal,
        )
        task = bar.add_task(label, total=total, completed=done, story="")
        lines = _Lines(self, label, total, done)

        def advance(amount: int, story: str = "", /) -> None:
            bar.update(task, advance=amount, story=story)
            if not self.terminal.is_terminal:
                lines.advance(amount, story)

        with bar:
            yield advance


_SOON = 10.0
"""Seconds without a line that work without a story may take."""


class _Lines:
    """A bar as lines of text: one at each tenth."""

    def __init__(self, console: Console, label: str, total: int, done: int) -> None:
        self._console, self._label, self._total = console, label, total
        self._before, self._done, self._started = done, done, time.monotonic()
        self._tenth = 10 * done // max(1, total)
        self._shown = 0.0

    def advance(self, amount: int, story: str) -> None:
        self._done += amount
        seconds, tenth = time.monotonic() - self._started, 10 * self._done // max(1, self._total)
        if tenth == self._tenth or not (story or seconds - self._shown > _SOON):
            return
        self._tenth, self._shown = tenth, seconds
        left = seconds / (self._done - self._before) * (self._total - self._done)
        text = "  ".join(filter(None, (f"{self._done:,}/{self._total:,}", story)))
        self._console.line(self._label, f"{text}  eta {_clock(left)}")


def _clock(seconds: float) -> str:
    """Seconds, or hours, minutes and seconds.

    >>> _clock(59.2), _clock(3725.4)
    ('59 s', '1:02:05')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
