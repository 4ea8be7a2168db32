"""One signal stops training at whatever moment it comes, and nothing is lost."""

import signal
from contextlib import contextmanager

import pytest
from resumed import assert_same_run

from isospace.comparison.compare import candidate, compare
from isospace.errors import Interrupted
from isospace.system.progress import Silent
from isospace.training.run import Run
from isospace.training.train import train


class PressesCtrlC(Silent):
    """Sends SIGINT at a line (label, words in it), or at ("train", update)."""

    def __init__(self, moment, text=""):
        self._moment, self._text = moment, text
        self.lines = []
        self.pressed = False

    def _press(self):
        self.pressed = True
        signal.raise_signal(signal.SIGINT)

    def line(self, label, text):
        self.lines.append(f"{label} {text}")
        if label == self._moment and self._text in text and not self.pressed:
            self._press()

    @contextmanager
    def bar(self, label, total, done=0):
        count = done

        def advance(amount, note="", /):
            nonlocal count
            count += amount
            if amount and (label, count) == self._moment:
                self._press()

        yield advance


def long(*moment):
    """Return a moment that only `make test-all` tries."""
    return pytest.param(*moment, marks=pytest.mark.exhaustive)


@pytest.mark.parametrize("moment", ["corpus", "encoder"])
def test_while_it_loads_no_run_is_begun(config, moment):
    with pytest.raises(Interrupted, match="no run was begun"):
        train(config, progress=PressesCtrlC(moment))
    assert not config.output.exists()


@pytest.mark.parametrize(
    "moment",
    [
        "base model",  # the benchmark
        ("train", 10),  # before an evaluation
        long("evaluation"),
        long(("train", 20)),  # the last update
        "verdict",  # whose results are there already
        long("load it"),
    ],
)
def test_at_any_moment_of_a_run_one_signal_stops_it_and_nothing_is_lost(
    config, finished_run, moment
):
    with pytest.raises(Interrupted, match=r"interrupted.*`resume`"):
        train(config, progress=PressesCtrlC(moment))
    run = Run(config.output)
    if moment in ("verdict", "load it"):
        assert_same_run(run, finished_run)
    else:
        assert run.results is None
    assert_same_run(train(resume=config.output).run, finished_run)


@pytest.mark.parametrize(("moment", "left"), [(("cell", "2 of 2"), 1), ((("train", 2),), 2)])
def test_a_comparison_begins_no_other_run_and_the_same_command_resumes(
    base, tmp_path, moment, left
):
    """Between two runs, and inside the first one."""
    settings = {name: candidate(name, base) for name in ("simcse", "dcl")}
    with pytest.raises(Interrupted, match="Continue with the same command"):
        compare(settings, 1, tmp_path / "c", progress=PressesCtrlC(*moment))
    assert not (tmp_path / "c" / "dcl").exists()
    assert Run(tmp_path / "c" / "simcse" / "seed-42").last_checkpoint.is_file()
    progress = PressesCtrlC("never")
    assert compare(settings, 1, tmp_path / "c", progress=progress) is not None
    assert len([line for line in progress.lines if line.startswith("cell")]) == left
