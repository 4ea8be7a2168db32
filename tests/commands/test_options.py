"""What the core calls `its_field`, the command line calls --its-field."""

from __future__ import annotations

import pytest

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
