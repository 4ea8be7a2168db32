"""`--nproc`: one command, several processes, one word about what ended it."""

from __future__ import annotations

import signal
import sys

import pytest

from isospace.errors import Stopped
from isospace.system import launch


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    """`launch` shares the cores out by a variable."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """Processes that do something else than isospace: a function of the body of a script."""

    def ended(body, count=2):
        script = tmp_path / "script.sh"
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))
        return launch.launch(["train"], count)

    return ended


def test_every_process_gets_all_words_and_knows_its_place(processes, tmp_path):
    body = f'echo "$*" $RANK of $WORLD_SIZE >> {tmp_path}/said'
    assert processes(body, 3) == 0
    said = (tmp_path / "said").read_text().splitlines()
    assert sorted(said) == [f"-m isospace train {rank} of 3" for rank in range(3)]


def test_the_status_is_that_of_what_ended_first(processes):
    assert processes("[ $RANK = 1 ] && exit 2; exit 1") == 2
    assert processes("[ $RANK = 1 ] && exit 1; sleep 60") == 1


def test_a_process_that_is_killed_is_named(processes, capfd):
    with pytest.raises(Stopped, match=r"^process 2 of 2 .*SIGKILL"):
        processes("[ $RANK = 1 ] && kill -9 $$; sleep 60")
    assert capfd.readouterr() == ("", "")


def test_processes_that_are_all_ended_politely_are_no_status_of_shells(processes, capfd):
    """Before they have handlers of their own; the status was 241, and nothing was said."""
    with pytest.raises(Stopped, match=r"SIGTERM"):
        processes("[ $RANK = 1 ] && kill -TERM $$; sleep 60")
    assert capfd.readouterr() == ("", "")


def test_a_closed_terminal_ends_nothing_under_nohup(monkeypatch):
    def heeded():
        return "SIGHUP" in launch._heeded()

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert not heeded()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert heeded()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_other_processes_leave_is_told_from_errors(monkeypatch):
    gone = RuntimeError("[third_party/gloo/pair.cc:553] Connection closed by peer")
    assert not launch.is_lost_peer_error(gone)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert launch.is_lost_peer_error(gone)
    assert not launch.is_lost_peer_error(RuntimeError("shapes do not match"))
