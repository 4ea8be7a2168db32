"""Signals are noted, not obeyed in the middle of a step."""

from __future__ import annotations

import os
import signal

import pytest

from isospace.system.signals import polite_stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_noted_and_the_second_insists(number):
    old = signal.signal(number, signal.SIG_DFL)  # the tests themselves may run under nohup
    try:
        with polite_stop() as received:
            os.kill(os.getpid(), number)
            assert received == [number]
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
    finally:
        signal.signal(number, old)


def test_a_closed_terminal_does_not_stop_what_runs_under_nohup():
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with polite_stop() as received:
            os.kill(os.getpid(), signal.SIGHUP)
        assert received == []
    finally:
        signal.signal(signal.SIGHUP, old)
