"""Printing results on standard output: as text, as a table or as JSON."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console as Terminal
from rich.text import Text

from isospace.commands.console import Console, draw_table
from isospace.commands.options import as_options
from isospace.system.settings import to_dict
from isospace.system.tables import Rows, columns_of, markdown_table
from isospace.system.typed_json import to_json

if TYPE_CHECKING:
    from isospace.training.run import FinishedRun

_LEAST = 50
"""Width to which a text in a table is cut at most; a narrow terminal shows it on several lines."""


def print_result(text: str) -> None:
    """Print a result on standard output; everything else goes to standard error."""
    sys.stdout.write(text + "\n")


def print_finished(outcome: FinishedRun, json: bool) -> None:
    """Print the results if JSON is asked for, write the report of a run, and print its path."""
    from isospace.report.run_set import collect
    from isospace.report.write import write_report
    from isospace.training.card import how_to_load

    if json:
        load_it = how_to_load(outcome.model_folder)
        lines = {"use": outcome.results.recommendation, "load_it": load_it}
        print_json(to_dict(outcome.results) | lines)
    elif outcome.earlier:  # no line has shown the verdict
        print_result(f"{outcome.run.folder} had been finished. {outcome.verdict}")
    with Console(json) as console:  # last: the folder may be read-only by now
        page = write_report(collect([outcome.run.folder]), in_words=as_options)
    console.line("report", str(page))


def print_json(content: Any) -> None:
    """Print results, a dataclass or JSON's types, as JSON; NaN and infinities become null.

    Non-ASCII characters are escaped unless standard output is UTF-8.
    """
    text = to_json(content)
    if codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8":
        text = json.dumps(json.loads(text), indent=2)
    print_result(text)


def _fitting(rows: Rows, texts: Collection[str], width: int) -> list[dict[str, str]]:
    """Cut the cells of the columns `texts` to equal shares of the width left by other columns."""
    columns = columns_of(rows)
    others = [name for name in columns if name not in texts]
    taken = sum(max(cell_len(row[name]) for row in [{name: name}, *rows]) for name in others)
    room = max(_LEAST, (width - taken - 3 * len(columns) - 1) // len(texts))
    return [
        {name: _cut(cell, room) if name in texts else cell for name, cell in row.items()}
        for row in rows
    ]


def _cut(cell: str, room: int) -> str:
    text = Text(cell)
    text.truncate(room, overflow="ellipsis")
    return text.plain


def print_table(title: str, rows: Rows, note: str = "", texts: Collection[str] = ()) -> None:
    """Print a title, a table and a note; in a file or a pipe as Markdown.

    On a terminal, the cells of the columns `texts` are cut to the width, because a corpus may have
    texts of any length.
    """
    terminal = Terminal(highlight=False, markup=False, emoji=False)
    if terminal.is_terminal:
        draw_table(terminal, title, _fitting(rows, texts, terminal.width) if texts else rows)
    else:
        print_result(f"{title}\n\n{markdown_table(rows)}\n")
    if note:
        print_result(f"{note}\n")
