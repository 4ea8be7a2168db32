"""What a person sees: lines, bars and tables on a terminal and in a file, and JSON."""

import io
import json
import re
import sys

import pytest
from rich.cells import cell_len
from rich.console import Console as Terminal

from isospace.commands.console import Console, draw_table
from isospace.commands.printing import print_json


@pytest.fixture
def terminal(monkeypatch):
    settings = {"TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "1", "TERM": "xterm", "COLUMNS": "80"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def left_on_the_screen(written):
    """What a terminal shows in the end of all that was written to it."""
    lines = [""]
    for piece in re.split(r"(\x1b\[[\d;?]*[A-Za-z]|[\r\n])", written):
        if piece == "\n":
            lines.append("")
        elif piece == "\x1b[1A":
            lines.pop()
        elif piece == "\x1b[2K":
            lines[-1] = ""
        elif not re.match(r"\x1b|\r", piece):
            lines[-1] += piece
    return [line.rstrip() for line in lines if line.strip()]


def test_a_terminal_keeps_results_and_redraws_steps(terminal, capsys):
    with Console() as console:
        console.line("tried", "whitened by pairs")
        with console.bar("train", 4) as advance:
            advance(1, "loss 2.5 " + "and so on " * 20)
            console._live.refresh()
            print("a warning of a library", file=sys.stderr)
            console.line("note", "nothing was trained")
        console.table("candidates", [{"": "base model", "MRR": "51.20"}])
    console.line("verdict", "keep the base model")
    err = capsys.readouterr().err
    assert "whitened by pairs" in err
    assert "25 %" in err
    assert "left" in err
    left = left_on_the_screen(err)
    assert left[0] == "a warning of a library"
    assert left[1].split() == ["note", "nothing", "was", "trained"]
    assert "51.20" in left[-3]
    assert left[-1].split()[0] == "verdict"
    assert not any("whitened" in line or "%" in line for line in left)


def test_the_newest_step_stays_after_an_error(terminal, capsys):
    def stopped():
        with Console() as console:
            console.line("tried", "whitened by pairs")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert left_on_the_screen(capsys.readouterr().err) == ["tried     whitened by pairs"]


def test_a_file_has_steps_as_lines(capsys):
    with Console() as console:
        console.reading(["docs"])
        console.line("tried", "whitened by pairs")
    assert capsys.readouterr().err.splitlines() == ["reading   docs", "tried     whitened by pairs"]


SETS = ("pairs", "STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg")
ROWS = [
    {"": state} | {name: f"{number}{place}.{place}7 ± 0.21" for place, name in enumerate(SETS)}
    for number, state in enumerate(("base model", "result (dev-selected on stsb-dev)"), 4)
]


def drawn(rows, width, terminal=True):
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
        assert all(row[name].split()[0] in text for name in SETS)


def test_a_wide_table_turns_its_rows_to_columns():
    wide, narrow = drawn(ROWS, 200), drawn(ROWS, 80)
    assert [line.split()[1] for line in wide if line.startswith("│")] == ["base", "result"]
    assert [line.split()[1] for line in narrow if line.startswith("│")] == [*SETS]
    assert max(map(cell_len, narrow)) <= 80


def test_a_table_too_wide_either_way_is_spread_over_several():
    """As a comparison of many objectives."""
    rows = [{"": f"objective-{i}", "MRR": "55.08 ± 0.10", "R@1": f"{i}.00"} for i in range(9)]
    lines = drawn([row | dict.fromkeys("abcdefghijk", "12.345") for row in rows], 60)
    assert max(map(cell_len, lines)) <= 60
    assert all(sum(f"objective-{i} " in line for line in lines) == 1 for i in range(9))
    assert sum("R@1" in line for line in lines) > 1


def test_intervals_are_folded_at_blanks_to_fit():
    """The candidates of adapt have intervals in every column."""
    interval = "-1.16 (-3.28 to +0.96)"
    rows = [{"": f"candidate {i}", "a": interval, "b": interval, "c": interval} for i in range(5)]
    lines = drawn(rows, 60)
    assert max(map(cell_len, lines)) <= 60
    assert sum(line.count("(-3.28") for line in lines) == 15
    assert sum(line.count("+0.96)") for line in lines) == 15


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
