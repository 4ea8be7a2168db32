"""Tables of cells, written as Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from isospace.system.files import write_text

Rows = Sequence[Mapping[str, str]]

_NUMBER = re.compile(r"[+-]?[\d.,]+(e-?\d+)?( ± [\d.]+)?")
_MINUS = re.compile(r"(?<![^\s(])-(?=[\d.])")
_POWER = re.compile(r"(?<=\d)e([+-])0*(\d+)\b")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
} | {character: f"\\{character}" for character in "&%$#_{}"}


@dataclass(frozen=True)
class Table:
    """Rows of cells under one heading."""

    name: str
    caption: str
    rows: Rows
    note: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in order of first appearance in the rows."""
        return columns_of(self.rows)

    def numeric(self) -> list[bool]:
        """Return for each column true if all its cells are numbers."""
        _, *body = _cells(self.rows)
        return [all(map(is_number, filter(None, column))) for column in zip(*body, strict=True)]


def columns_of(rows: Rows) -> tuple[str, ...]:
    """Return all columns of the rows, in order of first appearance."""
    return tuple(dict.fromkeys(name for row in rows for name in row))


def _cells(rows: Rows) -> list[list[str]]:
    """Return the names of the columns, then the cells of each row in that order."""
    columns = columns_of(rows)
    return [list(columns), *([row.get(name, "") for name in columns] for row in rows)]


def is_number(cell: str) -> bool:
    """Return true if a cell is a number, with or without its standard deviation.

    >>> is_number("61.23 ± 0.20"), is_number("1e-05"), is_number("adapted")
    (True, True, False)
    """
    return _NUMBER.fullmatch(cell) is not None


def markdown_table(rows: Rows) -> str:
    r"""Return rows of cells as a Markdown table.

    >>> print(markdown_table([{"a": "1"}, {"a": "2", "b": "3 | 4"}]))
    | a | b |
    |---|---|
    | 1 |  |
    | 2 | 3 \| 4 |
    """
    lines = _cells(rows)
    cells = [[cell.replace("|", r"\|").replace("\n", " ") for cell in line] for line in lines]
    head, *body = ("| " + " | ".join(line) + " |" for line in cells)
    return "\n".join([head, "|" + "---|" * len(lines[0]), *body])


def _markdown(table: Table) -> str:
    note = f"\n{table.note}\n" if table.note else ""
    return f"{table.caption}\n\n{markdown_table(table.rows)}\n{note}"


def latex_escape(text: str) -> str:
    r"""Return text with LaTeX's special characters, minus signs and powers escaped.

    >>> print(latex_escape("50 % of a_b ± 1"))
    50 \% of a\_b $\pm$ 1
    >>> print(latex_escape("-0.30 (-0.50 to +0.10) on STS12-16, p 4e-05"))
    $-$0.30 ($-$0.50 to +0.10) on STS12-16, p 4$\cdot10^{-5}$
    """
    text = "".join(_LATEX.get(character, character) for character in text)
    text = _POWER.sub(lambda e: rf"$\cdot10^{{{e[1].strip('+')}{e[2]}}}$", text)
    return _MINUS.sub("$-$", text)


def _latex(table: Table) -> str:
    r"""Return a table as a tabular to `\input` into a paper that loads booktabs."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(latex_escape, cells)) + r" \\"

    align = "".join("r" if number else "l" for number in table.numeric())
    comments = [f"% {text}" for text in (table.caption, table.note) if text]
    head, *body = map(line, _cells(table.rows))
    tabular = [f"\\begin{{tabular}}{{{align}}}", r"\toprule", head, r"\midrule", *body]
    return "\n".join([*comments, *tabular, r"\bottomrule", r"\end{tabular}", ""])


_FORMATS: dict[str, Callable[[Table], str]] = {"md": _markdown, "tex": _latex}


def write_tables(tables: Sequence[Table], page: Path) -> list[Path]:
    """Write each table in each format beside a page: `X.html` -> `X-NAME.md` and `.tex`."""
    written = []
    for table in tables:
        for suffix, render in _FORMATS.items():
            path = page.with_name(f"{page.stem}-{table.name}.{suffix}")
            write_text(path, render(table))
            written.append(path)
    return written
