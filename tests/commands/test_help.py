"""The help texts: without torch, without riddles of the core."""

from __future__ import annotations

import subprocess
import sys

import pytest

from isospace.cli import _parse, main
from isospace.commands import COMMANDS
from isospace.commands.help import EVERYDAY

WITHOUT_TORCH = """
import contextlib, io, sys

from isospace.cli import _parse, main
from isospace.commands import COMMANDS

for words in [[], *([command] for command in COMMANDS), ["train", "whitenedcse"]]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main([*words, "--help"])
    heavy = {"torch._C", "transformers", "sklearn", "lancedb"} & set(sys.modules)
    assert status == 0 and not heavy, f"{words}: {status}, {heavy}"
    assert " ".join(["isospace", *words]) in out.getvalue()
"""


def help_of(capsys, *words: str) -> str:
    assert main([*words, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys, command):
    out = help_of(capsys, command)
    assert f"isospace {command}" in out
    assert COMMANDS[command] in out
    assert "--json" in out


def test_help_imports_no_torch():
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=True, timeout=120)


def test_help_names_options_and_no_settings_of_the_core(capsys):
    words = " ".join(help_of(capsys, "train", "--help-all").replace("│", " ").split())
    assert "--select labels" in words
    assert "`labels`" not in words


@pytest.mark.parametrize("example", [e for one in EVERYDAY.values() for e in one.examples])
def test_examples_are_commands(example):
    _, *words = example.split()
    command = _parse(words)
    if words[0] == "compare":
        assert len(command.recipe_settings or command.candidates) == 2


@pytest.mark.parametrize("command", EVERYDAY)
def test_the_everyday_options_fit_a_screen_and_all_options_are_behind_another_word(capsys, command):
    short = help_of(capsys, command)
    assert len(short.splitlines()) <= 60
    assert all(example in " ".join(short.split()) for example in EVERYDAY[command].examples)
    assert "--output" in short
    assert "--help-all" in short
    assert "--held-out" not in short
    everything = help_of(capsys, command, "--help-all")
    assert {"--output", "--held-out"} <= set(everything.replace(",", " ").split())
    assert "config" not in everything
