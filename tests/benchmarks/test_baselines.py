"""benchmarks/baselines.py: what its page says of costs, and that it goes on from its archive."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from isospace.config import TrainConfig

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COSTS = {
    "pcl": {
        "times simcse": 12.3,
        "from": 11.94,
        "to": 13,
        "peak MB": 2345.6,
        "machine": "one core",
    },
    "simcse": {"peak MB": 1200.2},
    "ct": {"times simcse": 0.9, "from": 0.9, "to": 1, "peak MB": 1300, "machine": "one core"},
}


@pytest.fixture
def baselines(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("baselines")
    page = tmp_path / "baselines.md"
    page.write_text("Before.\n<!-- cost -->\n<!-- end cost -->\nAfter.\n")
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(module, "COST", tmp_path / "baselines-cost.json")
    return module


def test_costs_are_drawn_once_they_are_measured(baselines, monkeypatch):
    before = baselines.PAGE.read_text()
    baselines._draw_cost()
    assert baselines.PAGE.read_text() == before
    monkeypatch.setattr(baselines, "cost", lambda options: COSTS)
    monkeypatch.setattr(sys, "argv", ["baselines.py", "text.txt", "STS", "--cost"])
    baselines.main()
    assert json.loads(baselines.COST.read_text()) == COSTS
    page = baselines.PAGE.read_text().splitlines()
    assert page[:7] == [
        "Before.",
        "<!-- cost -->",
        "|  | times simcse | peak MB |",
        "|---|---|---|",
        "| ct | 0.90 (0.90 to 1.00) | 1,300 |",
        "| simcse | 1 | 1,200 |",
        "| pcl | 12.30 (11.94 to 13.00) | 2,346 |",
    ]
    assert page[-3].endswith("of 3 rounds. one core.")
    assert page[-2:] == ["<!-- end cost -->", "After."]


@pytest.mark.parametrize("table", ["cls", "costly", "paragraphs", "mean"])
def test_archived_cells_have_the_settings_that_the_command_asks_for(baselines, table):
    """Another default of a setting would make the command refuse all of its finished runs."""
    wanted = baselines.TABLES[table].candidates(Path("CORPUS"), Path("STS"))
    results, _ = baselines.read(baselines.CELLS[table])
    runs = {name: found for name, found in results.items() if "/seed-" in name}
    assert runs
    for name, found in runs.items():
        config = TrainConfig.from_json(json.dumps(found["config"]))
        row, seed = name.split("/seed-")
        assert config == replace(wanted[row], seed=int(seed), output=config.output), name
