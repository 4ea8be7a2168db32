"""What a person sees while something runs: lines, a progress bar, tables. All of it on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from isospace.devices import memory_gb
from isospace.loop import Step


class Display:
    """Progress for people.

    Args:
        quiet: show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)

    def line(self, label: str, text: str) -> None:
        """One line of the story: a short label and what happened."""
        self.console.print(f"[bold]{label:<9}[/bold] ", end="")
        self.console.print(text, markup=False, soft_wrap=True)

    def table(self, title: str, rows: Mapping[str, Mapping[str, str]]) -> None:
        """A small table: row name -> column -> cell."""
        table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
        columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
        for column in ("", *columns):
            table.add_column(column, justify="right" if column else "left")
        for name, cells in rows.items():
            table.add_row(name, *(cells.get(column, "") for column in columns))
        self.console.print(table)

    @contextmanager
    def counting(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar for work that is counted; gives the function that advances it."""
        bar = Progress(
            TextColumn(f"[bold]{label:<9}[/bold]"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        task = bar.add_task(label, total=total)
        with bar:
            yield lambda n: bar.advance(task, n)


class TrainingBar:
    """The bar of the training loop: terms, sentences per second, time left, memory.

    Where stderr is no terminal, a plain line is printed ten times a run instead.

    Args:
        display: where to draw.
        done: steps done before (a resumed run).
        total: steps of the whole run.
    """

    def __init__(self, display: Display, done: int, total: int) -> None:
        self._display, self._total = display, total
        self._every = max(1, total // 10)
        self._rate: float | None = None
        self._bar = Progress(
            TextColumn("[bold]train    [/bold]"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[story]}"),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=display.console,
            transient=True,
            disable=not display.console.is_terminal,
        )
        self._task = self._bar.add_task("train", total=total, completed=done, story="")

    def __enter__(self) -> TrainingBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, step: Step, sentences: int) -> float:
        """Show one update of `sentences` sentences; returns the smoothed sentences per second."""
        now = sentences / step.seconds
        self._rate = now if self._rate is None else 0.9 * self._rate + 0.1 * now
        terms = "  ".join(f"{name} {value:.4g}" for name, value in step.terms.items())
        story = f"{terms}  {self._rate:.0f} sentences/s  {memory_gb():.1f} GB"
        self._bar.update(self._task, completed=step.step, story=story)
        if not self._display.console.is_terminal and step.step % self._every == 0:
            left = (self._total - step.step) * sentences / self._rate
            self._display.line("train", f"{step.step}/{self._total}  {story}  eta {left:.0f} s")
        return self._rate
