"""What a verb prints on standard output: results as text, as a table, as JSON."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from isospace.system.tables import Rows, columns_of, markdown_table


def print_result(text: str) -> None:
    """Results go to standard output; everything else goes to standard error."""
    sys.stdout.write(text + "\n")


def print_table(title: str, rows: Rows) -> None:
    """A title and rows as a table, or as Markdown where nobody looks."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(title, style="bold", soft_wrap=True)
    if not console.is_terminal:
        console.print(f"\n{markdown_table(rows)}\n", soft_wrap=True)
        return
    columns = columns_of(rows)
    table = Table(header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(row.get(column, "") for column in columns))
    console.print(table)
