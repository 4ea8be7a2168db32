"""Threads that wait for each other sleep, unless the user said otherwise."""

from __future__ import annotations

import os
import re
import subprocess
import sys

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


def test_torch_reads_it(monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.setenv("OMP_DISPLAY_ENV", "TRUE")
    script = "from isospace.system.waiting import wait_passively; wait_passively(); import torch"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search("OMP_WAIT_POLICY ?= ?'PASSIVE'", done.stderr)
