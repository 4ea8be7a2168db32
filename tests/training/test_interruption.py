"""One signal stops training at whatever moment it comes, and nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from resumed import assert_same_run

from isospace.comparison.compare import candidate, compare
from isospace.errors import Interrupted
from isospace.system.progress import Advance
from isospace.training.run import Run
from isospace.training.train import train


class PressesCtrlC:
    """A `Progress` that sends SIGINT when a moment has come.

    Args:
        moment: the label of a line, the title of a table, or ("train", a number of updates).
        text: where several lines have the label, what the one says.
    """

    def __init__(self, moment: str | tuple[str, int], text: str = "") -> None:
        self._moment, self._text = moment, text
        self.lines: list[str] = []
        self.pressed = 0

    def _press(self) -> None:
        self.pressed += 1
        os.kill(os.getpid(), signal.SIGINT)

    def line(self, label: str, text: str) -> None:
        self.lines.append(f"{label} {text}")
        if label == self._moment and self._text in text:
            self._press()

    def table(self, title: str, rows: Sequence[Mapping[str, str]]) -> None:
        if title == self._moment:
            self._press()

    @contextmanager
    def bar(self, label: str, total: int, done: int = 0) -> Iterator[Advance]:
        count = done

        def advance(amount: int, note: str = "", /) -> None:
            nonlocal count
            count += amount
            if amount and (label, count) == self._moment:
                self._press()

        yield advance


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Results and kept weights of a run that nobody stopped; `config` must be the same."""
    cache = {}

    def run(config):
        if not cache:
            outcome = train(replace(config, output=tmp_path_factory.mktemp("whole") / "run"))
            cache["whole"] = outcome.run
        return cache["whole"]

    return run


def moments(short: list[tuple[Any, str]], long: list[tuple[Any, str]]) -> list[Any]:
    """Return moments, of which the `long` ones are for `make test-all`."""
    return [*short, *(pytest.param(*moment, marks=pytest.mark.exhaustive) for moment in long)]


LOADING = [("corpus", ""), ("encoder", "")]
BEGUN = moments(
    [
        ("base model", ""),  # the benchmark
        (("train", 10), ""),  # before an evaluation
    ],
    [
        ("evaluation", "step 10"),
        (("train", 20), ""),  # the last update
    ],
)
FINISHED = moments([("verdict", "")], [("load it", "")])


@pytest.mark.parametrize(("moment", "text"), LOADING)
def test_while_it_loads_no_run_is_begun(config, moment, text):
    with pytest.raises(Interrupted, match="no run was begun"):
        train(config, progress=PressesCtrlC(moment, text))
    assert not config.output.exists()


@pytest.mark.parametrize(("moment", "text"), BEGUN)
def test_at_any_moment_of_a_run_one_signal_stops_it_and_nothing_is_lost(
    config, whole, moment, text
):
    progress = PressesCtrlC(moment, text)
    with pytest.raises(Interrupted, match=r"interrupted.*`resume`"):
        train(config, progress=progress)
    assert progress.pressed == 1
    assert Run(config.output).results is None
    assert_same_run(train(resume=config.output).run, whole(config))


@pytest.mark.parametrize(("moment", "text"), FINISHED)
def test_a_finished_run_keeps_its_results(config, whole, moment, text):
    with pytest.raises(Interrupted, match=r"interrupted.*`resume`"):
        train(config, progress=PressesCtrlC(moment, text))
    run = Run(config.output)
    assert run.results is not None
    assert_same_run(run, whole(config))


@pytest.mark.parametrize(
    ("moment", "text"),
    moments(
        [("cell", "2 of 2")],
        [("evaluation", ""), ("took", "")],
    ),
)
def test_a_comparison_begins_no_other_run(base, tmp_path, moment, text):
    settings = {name: candidate(name, base) for name in ("simcse", "dcl")}
    progress = PressesCtrlC(moment, text)
    with pytest.raises(Interrupted, match="Continue with the same command"):
        compare(settings, 1, tmp_path / "c", progress=progress)
    assert not (tmp_path / "c" / "dcl").exists()
    assert not any(line.startswith("cell 2") for line in progress.lines) or text == "2 of 2"
    progress = PressesCtrlC("never")
    assert compare(settings, 1, tmp_path / "c", progress=progress) is not None
    begun = [line for line in progress.lines if line.startswith("cell")]
    assert len(begun) == (1 if text == "2 of 2" or moment == "took" else 2)
