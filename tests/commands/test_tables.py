"""Tables for people: no figure is ever cut, whatever the width."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.cells import cell_len
from rich.console import Console as Terminal

from isospace.commands.console import Console, draw_table
from isospace.commands.printing import print_json

SETS = ("pairs", "STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg")
ROWS = [
    {"": state} | {name: f"{number}{place}.{place}7 ± 0.21" for place, name in enumerate(SETS)}
    for number, state in enumerate(("base model", "result (dev-selected on stsb-dev)"), 4)
]


def drawn(rows, width: int, terminal: bool = True) -> list[str]:
    out = io.StringIO()
    console = Terminal(file=out, width=width, force_terminal=terminal, color_system=None)
    draw_table(console, "before and after [x 100]", rows)
    title, *lines = out.getvalue().splitlines()
    assert title == "before and after [x 100]"
    return lines


@pytest.mark.parametrize(("width", "terminal"), [(20, True), (80, True), (200, True), (40, False)])
def test_no_figure_is_cut(width, terminal):
    text = "\n".join(drawn(ROWS, width, terminal))
    for row in ROWS:
        assert all(row[name] in text for name in SETS)


def test_a_wide_table_turns_its_rows_to_columns():
    wide, narrow = drawn(ROWS, 200), drawn(ROWS, 80)
    assert [line.split()[1] for line in wide if line.startswith("│")] == ["base", "result"]
    first = [line.split()[1] for line in narrow if line.startswith("│")]
    assert first == [*SETS]
    assert max(map(cell_len, narrow)) <= 80


def test_a_table_too_wide_either_way_is_spread_over_several():
    """The candidates of adapt have intervals in every column."""
    interval = "-1.16 (-3.28 to +0.96)"
    rows = [{"": f"candidate {i}", "a": interval, "b": interval, "c": interval} for i in range(5)]
    lines = drawn(rows, 80)
    assert max(map(cell_len, lines)) <= 80
    assert sum(line.count(interval) for line in lines) == 15
    assert [line.split()[1] for line in lines if "candidate 0" in line] == ["candidate"] * 2


def test_json_is_json_in_any_encoding_and_has_no_infinities(monkeypatch):
    written = io.BytesIO()
    terminal = io.TextIOWrapper(written, "ascii", errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", terminal)
    print_json({"text": "é 😀", "numbers": [float("inf"), (float("nan"), 1)]})
    terminal.flush()
    found = json.loads(written.getvalue(), parse_constant=pytest.fail)
    assert found == {"text": "é 😀", "numbers": [None, [None, 1]]}


def test_brackets_in_a_table_are_text(capsys):
    Console().table("a table", [{"[bold]name": "[i]x[/i]", "[/]": "[red]"}])
    err = capsys.readouterr().err
    assert all(cell in err for cell in ("[bold]name", "[i]x[/i]", "[/]", "[red]"))
