"""benchmarks/guard.py: which rows of speed.json became slower."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def guard(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return pytest.importorskip("guard")


def test_a_row_below_all_committed_rounds_is_slower(guard):
    columns = ["", "sentences a second", "times the peer", "peak MB"]
    rows = [
        ["ours", "82", "1.72 (1.66 to 1.73)", "1,520"],
        ["other", "50", "1.10 (1.00 to 1.20)", ""],
    ]
    tables = [{"title": "training", "columns": columns, "rows": rows}]
    now = copy.deepcopy(tables)
    now[0]["rows"][0][2] = "1.60 (1.50 to 1.66)"  # they meet
    assert guard.slower(tables, now) == []
    now[0]["rows"][0][2] = "1.60 (1.50 to 1.65)"
    (line,) = guard.slower(tables, now)
    assert line == "training, ours: 1.6 (1.5 to 1.65), before 1.72 (1.66 to 1.73)"
    now[0]["rows"][0][1:] = ["out of memory", "", ""]
    assert guard.slower(tables, now) == ["training, ours: has no ratio any more (1.72 before)"]


def test_every_ratio_of_the_committed_page_has_a_name_of_its_own(guard):
    record = json.loads((guard.RESULTS / "speed.json").read_text(encoding="utf-8"))
    for part in record.keys() & set(guard.GUARDED):
        names = [name for name, _ in guard._ratios(record[part]["tables"])]
        assert names
        assert len(names) == len(set(names)), part
