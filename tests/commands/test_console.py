"""What a person sees while a command works: on a terminal, and in a file."""

from __future__ import annotations

import re
import sys

import pytest

from isospace.commands.console import Console


@pytest.fixture
def terminal(monkeypatch):
    """Standard error is a terminal of 80 columns."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def left_on_the_screen(written: str) -> list[str]:
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
    def stopped() -> None:
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
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["reading   docs", "tried     whitened by pairs"]
