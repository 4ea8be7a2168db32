"""Imports that are put off."""

from __future__ import annotations

import sys

import pytest

from isospace.system.lazy import lazy_imports


@pytest.fixture
def heavy(tmp_path, monkeypatch):
    """A module that notes each time that it is run."""
    (tmp_path / "heavy_module.py").write_text("import sys\nsys.heavy_runs += 1\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "heavy_runs", 0, raising=False)
    yield "heavy_module"
    sys.modules.pop("heavy_module", None)


def test_a_module_runs_when_it_is_used(heavy):
    with lazy_imports(heavy):
        module = __import__(heavy)
        assert sys.heavy_runs == 0
    assert module.value == 3
    assert sys.heavy_runs == 1


def test_other_modules_and_later_imports_run_at_once(heavy):
    with lazy_imports("another"):
        __import__(heavy)
    assert sys.heavy_runs == 1


def test_importing_it_again_is_no_use_of_it(heavy, tmp_path):
    (tmp_path / "user_of_heavy.py").write_text(f"import {heavy}\n")
    with lazy_imports(heavy):
        __import__(heavy)
        __import__("user_of_heavy")
    assert sys.heavy_runs == 0
    del sys.modules["user_of_heavy"]


def test_an_attribute_that_is_imported_is_there(heavy):
    with lazy_imports(heavy):
        from heavy_module import value
    assert value == 3
