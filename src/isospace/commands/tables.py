"""Drawing of tables on a terminal, for all commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console as Terminal
from rich.segment import Segments
from rich.table import Table as Drawing

from isospace.system.tables import Rows, columns_of, is_number

Grid = Sequence[tuple[str, ...]]
"""Rows of cells; the first row has the headings."""

_FIGURES = 24
"""Greatest length of a cell with a digit that counts as figures; figures are never cut."""
_TEXT = 12
"""Smallest width of a column of folded text."""


def draw_table(terminal: Terminal, title: str, rows: Rows) -> None:
    """Print a title and a table; figures keep every digit.

    On a narrow terminal, text is folded. If this is not enough, rows become columns. If these do
    not fit either, the columns are spread over several tables. In a log file nothing is folded.
    """
    columns = columns_of(rows)
    grid: list[tuple[str, ...]] = [columns]
    grid += [tuple(row.get(column, "") for column in columns) for row in rows]
    turned = list(zip(*grid, strict=True))
    terminal.print(title, style="bold", soft_wrap=True, markup=False)
    if not terminal.is_terminal:
        _draw(terminal, grid, _full_width(grid))
    elif _least_width(grid) > terminal.width >= _least_width(turned):
        _draw(terminal, turned, terminal.width)
    else:
        for part in _parts(turned, terminal.width):
            _draw(terminal, part, max(terminal.width, _least_width(part)))


def _draw(terminal: Terminal, grid: Grid, width: int) -> None:
    lines = terminal.render(_drawing(grid), terminal.options.update(width=width))
    terminal.print(Segments(lines), crop=False, end="")


def _parts(columns: Grid, width: int) -> Iterator[Grid]:
    """Yield tables that fit into a width, each with the first column and some other columns."""
    name, *rest = columns
    part = [name]
    for column in rest:
        if len(part) > 1 and _least_width(list(zip(*part, column, strict=True))) > width:
            yield list(zip(*part, strict=True))
            part = [name]
        part.append(column)
    yield list(zip(*part, strict=True))


def _drawing(grid: Grid) -> Drawing:
    drawing = Drawing(header_style="bold")
    for place, (heading, *cells) in enumerate(zip(*grid, strict=True)):
        numbers = all(map(is_number, filter(None, cells)))
        drawing.add_column(
            heading,
            justify="right" if numbers and place else "left",
            no_wrap=_are_figures(cells),
            overflow="fold",
        )
    for row in grid[1:]:
        drawing.add_row(*row)
    return drawing


def _are_figures(cells: Sequence[str]) -> bool:
    return all(
        cell_len(cell) <= _FIGURES and any(map(str.isdigit, cell)) for cell in filter(None, cells)
    )


def _full_width(grid: Grid) -> int:
    return 1 + sum(3 + max(map(cell_len, column)) for column in zip(*grid, strict=True))


def _least_width(grid: Grid) -> int:
    """Return the width of a table with its text folded."""
    width = 1
    for column in zip(*grid, strict=True):
        widest = max(map(cell_len, column))
        width += 3 + (widest if _are_figures(column[1:]) else min(widest, _TEXT))
    return width
