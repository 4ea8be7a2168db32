"""Threads that wait for each other sleep, unless the user said otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from isospace.cli import main
from isospace.system.waiting import wait_passively


@pytest.fixture(autouse=True)
def _policy_of_the_user(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")


def test_whoever_has_set_a_policy_is_obeyed():
    wait_passively()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


def test_the_command_line_waits_passively(monkeypatch, capsys):
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert main(["--help"]) == 0
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


def test_the_openmp_of_torch_reads_it(monkeypatch):
    torch = find_spec("torch")
    libraries = sorted(Path(torch.origin).parent.glob("lib/libgomp*"))
    if not libraries:
        pytest.skip("this torch comes with another OpenMP")
    monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.setenv("OMP_DISPLAY_ENV", "TRUE")
    script = (
        "import ctypes\nfrom isospace.system.waiting import wait_passively\n"
        f"wait_passively()\nctypes.CDLL({str(libraries[0])!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in done.stderr
