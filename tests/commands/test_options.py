"""What the core calls `its_field`, the command line calls --its-field."""

from __future__ import annotations

from pathlib import Path

import pytest

from isospace.cli import _parse
from isospace.commands.options import as_options


def test_resume_is_a_command_that_starts_as_many_processes(monkeypatch):
    assert as_options("go on: `resume` runs/a") == "go on: isospace train --resume runs/a"
    assert as_options("adapt `resume` runs/a") == "isospace adapt --resume runs/a"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    wanted = "torchrun --nproc-per-node 2 --no-python isospace train --resume runs/a"
    assert as_options("`resume` runs/a") == wanted


@pytest.mark.parametrize("user", ["`output` = 'x", '`resume` = "x"', """`a` = 'x' or "y" = `to`"""])
def test_what_a_user_wrote_is_quoted_as_it_is(user):
    assert as_options(f"filter {user!r}: the model's `to`") == f"filter {user!r}: the model's --to"


@pytest.mark.parametrize("words", ["train", "adapt docs", "ask docs", "whiten", "encode m in.txt"])
@pytest.mark.parametrize("option", ["--output=~/out", "-o ~/out"])
def test_an_output_may_begin_with_the_home_folder(words, option):
    assert _parse([*words.split(), *option.split()]).config.output == Path.home() / "out"
