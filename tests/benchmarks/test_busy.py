"""benchmarks/busy.py: each setting idle and beside a process that wants a core."""

from __future__ import annotations

import importlib
import time
from pathlib import Path

import psutil
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def busy(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("busy")


def test_what_is_busy_ends_with_the_block(busy):
    before = psutil.Process().children()
    with busy.busy_core():
        [spinning] = set(psutil.Process().children()) - set(before)
        deadline = time.monotonic() + 60
        while spinning.cpu_times().user < 0.1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert not spinning.is_running()
