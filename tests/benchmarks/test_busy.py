"""benchmarks/busy.py: each setting idle and beside a process that wants a core."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path

import psutil
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def busy(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("busy")


def waits():
    """A round that takes a tenth of a second, half of it where threads wait passively."""
    seconds = 0.05 if os.environ.get("OMP_WAIT_POLICY") == "PASSIVE" else 0.1

    def one_round() -> float:
        return seconds

    return one_round


def test_a_line_for_each_setting(busy, monkeypatch):
    settings = list(busy.SETTINGS)[:2]
    monkeypatch.setattr(busy, "ROUNDS", 1)
    monkeypatch.setattr(busy, "SETTINGS", {name: busy.SETTINGS[name] for name in settings})
    table = busy._table("waiting", waits, (), 10)
    alone, twice = ["100.0", "1.00 (1.00 to 1.00)"], ["200.0", "2.00 (2.00 to 2.00)"]
    assert table["rows"] == [[settings[0], *alone, *alone], [settings[1], *twice, *twice]]
    assert len(table["columns"]) == 5


def test_what_is_busy_ends_with_the_block(busy):
    before = psutil.Process().children()
    with busy.busy_core():
        [spinning] = set(psutil.Process().children()) - set(before)
        deadline = time.monotonic() + 60
        while spinning.cpu_times().user < 0.1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert not spinning.is_running()
