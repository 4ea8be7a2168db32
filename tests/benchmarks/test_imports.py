"""Every benchmark can be imported: most are run by hand, and would break unseen."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCHMARKS.glob("*.py")))
def test_it_can_be_imported(name, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    importlib.import_module(name)
