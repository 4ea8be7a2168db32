"""benchmarks/cells.py: the missing cells of a table, each a process of its own."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from sts_files import write_senteval

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def cells(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("cells")


def test_missing_cells_are_run_and_one_that_fails_costs_no_other(
    cells, tmp_path, monkeypatch, capsys
):
    sts = tmp_path / "sts"
    write_senteval(sts)
    script, results = tmp_path / "table.py", tmp_path / "results.json"
    script.write_text(
        f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(BENCHMARKS)!r})
import cells

def run_cell(cell, corpus, sts, work):
    if cell[1] == "bad":
        sys.exit("not this one")
    return {{"cell": cell, "corpus": corpus.name, "value": cell[2] + 1}}

cells.main("", "", [], Path(), run_cell, lambda: None)
"""
    )
    words = [str(script), "text.txt", str(sts), "--work", str(tmp_path / "work"), "--jobs", "2"]
    monkeypatch.setattr(sys, "argv", words)
    there = {"cell": ["t", "good", 0], "corpus": "text.txt", "value": 1}
    results.write_text(json.dumps([there]))
    drawn = []

    def draw() -> None:
        drawn.append(len(cells.read(results)))

    table = [("t", "bad", 1), ("t", "good", 1), ("t", "good", 0)]
    with pytest.raises(SystemExit, match="1 of the cells failed"):
        cells.main("", "", table, results, lambda *_: pytest.fail("ran here"), draw)
    assert cells.read(results) == [there, {**there, "cell": ["t", "good", 1], "value": 2}]
    assert drawn == [2]
    assert "FAILED t bad 1 not this one; see" in capsys.readouterr().out
