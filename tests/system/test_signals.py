"""A signal ends the work, at once or where the work says, and none is lost."""

import os
import signal
import threading

import pytest

from isospace.system.signals import is_lost_peer_error, polite_stop


def ask(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def number(request):
    old = signal.signal(request.param, signal.SIG_DFL)  # the tests themselves may run under nohup
    yield request.param
    signal.signal(request.param, old)


def test_a_signal_ends_the_block_at_once(number):
    passed = []

    def work():
        with polite_stop():
            ask(number)
            passed.append("the signal")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert passed == []
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_delayed_block_ends_itself_and_a_second_signal_insists(number):
    passed = []

    def work():
        with polite_stop() as request, request.delayed():
            ask(number)
            passed.append(request.received)
            ask(number)
            passed.append("the second")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert passed == [True]


def test_of_two_blocks_the_inner_one_passes_the_signal_on():
    with pytest.raises(KeyboardInterrupt), polite_stop(), polite_stop():
        ask()


def test_a_closed_terminal_does_not_stop_what_runs_under_nohup():
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with polite_stop() as request:
            ask(signal.SIGHUP)
        assert not request.received
    finally:
        signal.signal(signal.SIGHUP, old)


def test_another_thread_than_the_main_one_leaves_signals_to_whoever_runs_it():
    before = signal.getsignal(signal.SIGINT)
    inside = []

    def work():
        with polite_stop():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before]


def test_what_other_processes_leave_is_told_from_errors(monkeypatch):
    gone = RuntimeError("[third_party/gloo/pair.cc:553] Connection closed by peer")
    assert not is_lost_peer_error(gone)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert is_lost_peer_error(gone)
    assert not is_lost_peer_error(RuntimeError("shapes do not match"))
