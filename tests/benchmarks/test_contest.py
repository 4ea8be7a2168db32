"""benchmarks/contest.py: rounds in turn, each candidate in a process and an environment of its own."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def contest(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setenv("ISOSPACE_HERE", "here")
    return importlib.import_module("contest").contest


def writes(path: str):
    """A round that writes its process and the variable."""

    def one_round() -> None:
        with open(path, "a", encoding="utf-8") as file:
            print(os.getpid(), os.environ.get("ISOSPACE_HERE"), file=file)

    return one_round


def fails():
    raise ValueError("cannot be prepared")


def test_candidates_work_in_turn_each_in_its_environment(contest, tmp_path):
    path = tmp_path / "rounds.txt"
    candidates = {name: (writes, (str(path),)) for name in ("as it is", "changed", "without")}
    contested = contest(
        {**candidates, "bad": (fails, ())},
        rounds=2,
        environments={"changed": {"ISOSPACE_HERE": "there"}, "without": {"ISOSPACE_HERE": None}},
    )
    lines = [line.split() for line in path.read_text().splitlines()]
    assert [variable for _, variable in lines] == 3 * ["here", "there", "None"]  # one to warm up
    assert len({process for process, _ in lines}) == 3
    assert os.environ["ISOSPACE_HERE"] == "here"
    assert [len(result.seconds) for result in contested.values()] == [2, 2, 2, 0]
    assert contested["bad"].failure == "ValueError: cannot be prepared"
