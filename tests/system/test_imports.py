"""Imports of large libraries: put off, with threads that sleep."""

from __future__ import annotations

import os
import sys

import pytest

from isospace.cli import main
from isospace.system.imports import lazy_imports, wait_passively


@pytest.fixture
def heavy(tmp_path, monkeypatch):
    """A module that notes each time that it is run."""
    (tmp_path / "heavy_module.py").write_text("import sys\nsys.heavy_runs += 1\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "heavy_runs", 0, raising=False)
    yield "heavy_module"
    sys.modules.pop("heavy_module", None)


def test_a_module_runs_when_it_is_used_and_not_when_it_is_imported_again(heavy, tmp_path):
    (tmp_path / "user_of_heavy.py").write_text(f"import {heavy}\n")
    with lazy_imports(heavy):
        module = __import__(heavy)
        __import__("user_of_heavy")
    assert sys.heavy_runs == 0
    assert module.value == 3
    assert sys.heavy_runs == 1
    del sys.modules["user_of_heavy"]


def test_threads_wait_passively_unless_the_user_has_set_a_policy(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    wait_passively()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert main(["--help"]) == 0
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
