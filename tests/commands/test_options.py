"""Options and their help: without torch, and in the words of the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from isospace.cli import _parse, main
from isospace.commands.options import EVERYDAY, as_options

WITHOUT_TORCH = """
import contextlib, io, sys

from isospace.cli import _parse, main
from isospace.commands import COMMANDS

for words in [[], *([command] for command in COMMANDS), ["train", "whitenedcse"]]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main([*words, "--help"])
    slow = {"torch._C", "transformers", "sklearn", "lancedb", *(() if words else ["numpy"])}
    heavy = slow & set(sys.modules)
    assert status == 0 and not heavy, f"{words}: {status}, {heavy}"
    assert " ".join(["isospace", *words]) in out.getvalue()
    assert "config options" not in out.getvalue(), words
    if words[:1] != ["train"] or len(words) == 1:
        assert all(COMMANDS[one] in out.getvalue() for one in words or COMMANDS), words
        assert not words or "--json" in out.getvalue(), words
"""


def help_of(capsys, *words):
    assert main([*words, "--help"]) == 0
    return capsys.readouterr().out


def test_every_command_has_help_without_torch():
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=True, timeout=120)


def test_an_objective_has_help_of_its_own_in_any_order(capsys):
    text = help_of(capsys, "train", "simcse")
    assert "--temperature" in text
    assert "--corpus" not in text
    assert main(["train", "--help", "simcse"]) == 0
    assert capsys.readouterr().out == text


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


def test_the_output_of_a_comparison_is_required_and_its_help_says_so(capsys):
    text = " ".join(help_of(capsys, "compare", "--help-all").split())
    assert "--output PATH The folder of the comparison (required)" in text
    assert text.count("--output") == 1 + sum("--output" in e for e in EVERYDAY["compare"].examples)
    assert main(["compare", "simcse"]) == 2
    assert "--output is missing" in capsys.readouterr().err


def test_resume_is_a_command_that_starts_as_many_processes(monkeypatch):
    assert as_options("go on: `resume` runs/a") == "go on: isospace train --resume runs/a"
    assert as_options("adapt `resume` runs/a") == "isospace adapt --resume runs/a"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    wanted = "torchrun --nproc-per-node 2 --no-python isospace train --resume runs/a"
    assert as_options("`resume` runs/a") == wanted


@pytest.mark.parametrize("user", ["`output` = 'x", '`resume` = "x"', """`a` = 'x' or "y" = `to`"""])
def test_what_a_user_wrote_is_quoted_as_it_is(user):
    assert as_options(f"filter {user!r}: the model's `to`") == f"filter {user!r}: the model's --to"


@pytest.mark.parametrize("words", ["train", "adapt docs", "whiten", "encode m in.txt"])
@pytest.mark.parametrize("option", ["--output=~/out", "-o ~/out", "-o=~/out"])
def test_an_output_may_begin_with_the_home_folder(words, option):
    assert _parse([*words.split(), *option.split()]).config.output == Path.home() / "out"
