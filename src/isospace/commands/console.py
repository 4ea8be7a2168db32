"""The display of a running command, on standard error, and tables on a terminal.

A terminal shows two lines that are redrawn: the newest step, and the progress. Results, notes,
warnings and tables are printed above them and stay. A file or a pipe gets a line for every step,
and for each tenth of longer work.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from rich.cells import cell_len
from rich.console import Console as Terminal, Group
from rich.live import Live
from rich.measure import Measurement
from rich.segment import Segment, Segments
from rich.spinner import Spinner
from rich.table import Table as Drawing
from rich.text import Text

from isospace.commands.options import as_options
from isospace.system.progress import Advance, Logged
from isospace.system.signals import is_main_process, launched
from isospace.system.tables import Rows, columns_of, is_number
from isospace.system.unicode import in_one_line

Grid = Sequence[tuple[str, ...]]
"""Rows of cells; the first row has the headings."""

_WORD = 24
"""Greatest length of a word that is never cut, such as a figure."""


def draw_table(terminal: Terminal, title: str, rows: Rows) -> None:
    """Print a title and a table.

    On a narrow terminal, cells are folded at blanks. If this is not enough, rows become columns, of
    several tables if they do not fit into one. In a log file nothing is folded.
    """
    columns = columns_of(rows)
    grid: Grid = [columns, *(tuple(row.get(name, "") for name in columns) for row in rows)]
    terminal.print(title, style="bold", soft_wrap=True, markup=False)
    least, full = _widths(terminal, grid)
    if not terminal.is_terminal:
        _draw(terminal, grid, full)
    elif least <= terminal.width:
        _draw(terminal, grid, terminal.width)
    else:
        for part in _turned(terminal, grid):
            _draw(terminal, part, max(terminal.width, _widths(terminal, part).minimum))


def _draw(terminal: Terminal, grid: Grid, width: int) -> None:
    # Rich divides the width first and then widens columns to their words, so a table may need less.
    for asked in range(width, width // 2, -1):
        lines = list(terminal.render(_drawing(grid), terminal.options.update(width=asked)))
        if max(map(Segment.get_line_length, Segment.split_lines(lines))) <= width:
            break
    terminal.print(Segments(lines), crop=False, end="")


def _turned(terminal: Terminal, grid: Grid) -> Iterator[Grid]:
    """Yield tables that fit a terminal, with the headings and some rows of a table as columns."""
    headings, *rows = grid
    part = [headings]
    for row in rows:
        wider = list(zip(*part, row, strict=True))
        if len(part) > 1 and _widths(terminal, wider).minimum > terminal.width:
            yield list(zip(*part, strict=True))
            part = [headings]
        part.append(row)
    yield list(zip(*part, strict=True))


def _widths(terminal: Terminal, grid: Grid) -> Measurement:
    """Return the least width of a table, with its text folded, and its full width."""
    return terminal.measure(_drawing(grid), options=terminal.options.update(max_width=100_000))


def _drawing(grid: Grid) -> Drawing:
    drawing = Drawing(header_style="bold")
    for place, (heading, *cells) in enumerate(zip(*grid, strict=True)):
        filled = list(filter(None, cells))
        words = [word for cell in (heading, *cells) for word in cell.split()]
        drawing.add_column(
            heading,
            justify="right" if place and all(map(is_number, filled)) else "left",
            min_width=min(_WORD, max(map(cell_len, words), default=0)),
            overflow="fold",
        )
    for row in grid[1:]:
        drawing.add_row(*row)
    return drawing


STEPS = frozenset(
    "adapted,base model,baseline,cell,cells,encode,encoder,evaluation,labels,"
    "length,pairs,prompts,reading,relations,speed,test pairs,tokenise,train,tried,"
    "words".split(",")
)
"""Labels of lines that a display redraws; lines with other labels stay."""
RESULTS = frozenset(("kept", "took", "verdict", "other text", "use", "advice", "load it"))
"""Labels of a run's results, which a display redraws too if a summary of all runs follows."""

_BAR = 20  # characters
_FRAMES = 4  # a second
_SOON = 10.0
"""Fewest seconds between lines of a bar without notes, in a file or a pipe."""


class Console:
    """A `Progress` for people; as a context manager it draws the display of a terminal.

    A `quiet` console shows nothing; of several processes, only the first shows lines. With
    `many_runs`, results of single runs are redrawn, and their tables not shown: a summary follows.
    """

    def __init__(self, quiet: bool = False, many_runs: bool = False) -> None:
        self.terminal = Terminal(
            stderr=True,
            quiet=quiet or not is_main_process(),
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._many_runs = many_runs
        self._redrawn = STEPS | RESULTS if many_runs else STEPS
        self._started = time.monotonic()
        self._live: Live | None = None
        self._newest: Text | None = None
        self._bars: list[_Bar] = []
        self._spinner = Spinner("line" if self.terminal.options.ascii_only else "dots")

    def __enter__(self) -> Console:
        """Begin the display."""
        if self.terminal.is_interactive and not self.terminal.quiet:
            _displays.append(self)
            self._live = Live(
                get_renderable=self._display,
                console=self.terminal,
                refresh_per_second=_FRAMES,
                transient=True,
                redirect_stdout=False,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the display; after an error, print its newest step."""
        if self._live is None:
            return
        _displays.remove(self)
        self._live.stop()
        self._live = None
        if error is not None and self._newest is not None:
            self.terminal.print(self._newest, soft_wrap=True)

    def reading(self, corpus: Sequence[str], resume: Path | None = None) -> None:
        """Show what is read, as a first sign of work while libraries are loaded."""
        if source := str(resume or ", ".join(corpus)):
            self.line("reading", in_one_line(source))

    def line(self, label: str, text: str) -> None:
        """Show a short label and a text; the display redraws a step, and other lines stay."""
        line = Text.assemble((f"{label:<9} ", "bold"), as_options(text))
        if self._live is None or label not in self._redrawn:
            self.terminal.print(line, soft_wrap=True)
        else:
            self._newest = line

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        """Print rows of cells under a title."""
        if not self.terminal.quiet and not (self._live and self._many_runs):
            draw_table(self.terminal, title, rows)

    @contextmanager
    def bar(self, label: str, total: int, done: int = 0) -> Iterator[Advance]:
        """Show the progress of counted work, in the display or as a line at each tenth."""
        bar = _Bar(label, total, done)

        def advance(amount: int, note: str = "", /) -> None:
            if bar.advance(amount, note) and self._live is None:
                self.line(label, f"{bar.counted}  {note}{'  ' * bool(note)}{bar.left}")

        self._bars.append(bar)
        try:
            if self._live is not None or not self.terminal.is_interactive:
                yield advance
            else:
                with self:
                    yield advance
        finally:
            self._bars.remove(bar)

    def _display(self) -> Group:
        """Draw the newest step, and the innermost bar or the time since the start."""
        now = time.monotonic()
        if self._bars:
            bar = self._bars[-1]
            label, filled = bar.label, int(_BAR * bar.share)
            full, empty = "#-" if self.terminal.options.ascii_only else "━╌"
            done = f" {full * filled}{empty * (_BAR - filled)} {100 * bar.share:3.0f} %"
            rest = "  ".join(filter(None, (done, bar.left, bar.note)))
        else:
            label, rest = "working", f" {_clock(now - self._started)}"
        turning = self._spinner.render(now)
        moving = Text.assemble((f"{label:<9} ", "bold"), turning, rest)  # type: ignore[arg-type]
        lines = [moving] if self._newest is None else [self._newest.copy(), moving]
        for line in lines:  # with room for a terminal's own ^C
            line.truncate(self.terminal.width - 3, overflow="ellipsis")
        return Group(*lines)


_displays: list[Console] = []
"""The displays of this process that are drawn now, the newest last."""


class NewestDisplay(Logged):
    """A `Progress` for code without a console: the newest display shows its lines."""

    def __init__(self, quiet: bool) -> None:
        self._otherwise = Console(quiet)

    def line(self, label: str, text: str) -> None:
        """Show a line."""
        (_displays[-1] if _displays else self._otherwise).line(label, text)


def ask_user() -> Callable[[str], bool] | None:
    """Return a function that asks the user a question, or `None` without a terminal."""
    terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    return _ask if terminal and not launched() else None


def _ask(question: str) -> bool:
    """Ask a question while the displays are hidden; return true if the user types yes."""
    shown = [console._live for console in _displays if console._live is not None]
    for live in shown:
        live.stop()
    try:
        sys.stderr.write(f"{in_one_line(question)} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    finally:
        for live in shown:
            live.start()


class _Bar:
    """Progress of counted work, and an estimate of the time left."""

    def __init__(self, label: str, total: int, done: int) -> None:
        self.label, self.note = label, ""
        self._total, self._before, self._done = total, done, done
        self._started, self._shown = time.monotonic(), 0.0
        self._tenth = 10 * done // max(1, total)

    @property
    def share(self) -> float:
        return min(1.0, self._done / max(1, self._total))

    @property
    def counted(self) -> str:
        return f"{self._done:,}/{self._total:,}"

    @property
    def left(self) -> str:
        """Time left at the speed so far, for people; empty at the start."""
        here = self._done - self._before
        if here <= 0:
            return ""
        seconds = (time.monotonic() - self._started) / here * max(0, self._total - self._done)
        return f"{_clock(seconds)} left"

    def advance(self, amount: int, note: str) -> bool:
        """Advance by `amount`; return true if a log should get a line now."""
        self._done, self.note = self._done + amount, note
        seconds = time.monotonic() - self._started
        tenth = 10 * self._done // max(1, self._total)
        if tenth == self._tenth or not (note or seconds - self._shown > _SOON):
            return False
        self._tenth, self._shown = tenth, seconds
        return True


def _clock(seconds: float) -> str:
    """Return seconds as text: seconds alone, or hours, minutes and seconds.

    >>> _clock(59.2), _clock(725.4), _clock(3725.4)
    ('59 s', '12:05', '1:02:05')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
