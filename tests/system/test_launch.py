"""Errors that the end of another process of the same run causes."""

from __future__ import annotations

from isospace.system import launch


def test_what_other_processes_leave_is_told_from_errors(monkeypatch):
    gone = RuntimeError("[third_party/gloo/pair.cc:553] Connection closed by peer")
    assert not launch.is_lost_peer_error(gone)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert launch.is_lost_peer_error(gone)
    assert not launch.is_lost_peer_error(RuntimeError("shapes do not match"))
