"""Commands side by side: order, places, logs, failures, and nothing that runs on behind."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import psutil
import pytest

from isospace.comparison.cells import Ended, run_at_once, run_process
from isospace.system.signals import polite_stop

POLITE = """
import signal, sys, time
def stop(*_):
    print("saved", flush=True)
    sys.exit(1)
signal.signal(signal.SIGTERM, stop)
from isospace.system.signals import end_with_input
end_with_input()
print("ready", flush=True)
time.sleep(60)
"""
"""A program that runs until it is asked to stop."""


class Programs:
    """Python programs as jobs, and what became of them."""

    def __init__(self, folder, ended=lambda _: None):
        self.folder, self._ended = folder, ended
        self.begun = []
        self.ends = {}
        self.most = 0

    def run(self, programs, at_once):
        def run(name, place, stdin):
            self.begun.append(name)
            self.most = max(self.most, len(self.begun) - len(self.ends))
            command = [sys.executable, "-c", programs[name]]
            return run_process(command, self.log(name), place, at_once, stdin)

        with closing(run_at_once(list(programs), at_once, run)) as running:
            for name, ended in running:
                self.ends[name] = ended
                self._ended(name)

    def log(self, name):
        return self.folder / f"{name}.log"

    def wait_until_ready(self, *names):
        deadline = time.monotonic() + 180
        while not all(self.log(n).is_file() and "ready" in self.log(n).read_text() for n in names):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_all_run_in_turn_and_a_failure_is_told_by_the_last_line_of_its_process(tmp_path):
    programs = Programs(tmp_path)
    programs.log("silent").write_text("of an earlier process\n")
    programs.run(
        {
            "loud": "import sys; print('why'); sys.exit(2)",
            "silent": "import sys; sys.exit(3)",
            "killed": "import os; print('going well', flush=True); os.kill(os.getpid(), 9)",
            "good": "print('good')",
        },
        2,
    )
    assert sorted(programs.begun[:2]) == ["loud", "silent"]
    assert programs.most == 2
    ends = programs.ends
    assert (ends["loud"].status, ends["loud"].reason) == (2, "why")
    assert (ends["silent"].status, ends["silent"].reason) == (3, "exit status 3")
    assert ends["killed"].reason.startswith("was killed by signal 9")
    assert ends["good"] == Ended(0, "good")
    assert programs.log("silent").read_text() == "of an earlier process\n"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_or_a_signal_stops_all_politely(tmp_path, error):
    def ended(_):
        programs.wait_until_ready("long")
        if error is ValueError:
            raise error
        os.kill(os.getpid(), signal.SIGINT)

    programs, before = Programs(tmp_path, ended), psutil.Process().children()
    with pytest.raises(error), polite_stop():
        programs.run({"long": POLITE, "short": "", "never": ""}, 2)
    assert programs.log("long").read_text().splitlines() == ["ready", "saved"]
    assert sorted(programs.begun) == ["long", "short"]
    assert psutil.Process().children() == before


def test_a_killed_parent_takes_its_jobs_with_it(tmp_path):
    """They see their standard input end."""
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from isospace.comparison.cells import run_at_once, run_process\n"
        f"command = [sys.executable, '-c', {POLITE!r}]\n"
        "run = lambda name, place, stdin: "
        "run_process(command, Path(name + '.log'), place, 2, stdin)\n"
        "list(run_at_once('ab', 2, run))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path) as parent:
        Programs(tmp_path).wait_until_ready("a", "b")
        children = psutil.Process(parent.pid).children()
        parent.kill()
    gone, left = psutil.wait_procs(children, timeout=60)
    assert (len(gone), left) == (2, [])
    assert (tmp_path / "a.log").read_text().splitlines() == ["ready", "saved"]
