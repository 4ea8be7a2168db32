"""benchmarks/baselines.py: what its page says of costs, and that it goes on from its archive."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from isospace.config import TrainConfig
from isospace.training.results import RunResults, read_results

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def baselines(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("baselines")
    page = tmp_path / "baselines.md"
    page.write_text("Before.\n<!-- cost -->\n<!-- end cost -->\nAfter.\n")
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(module, "COST", tmp_path / "baselines-cost.json")
    return module


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


def test_archived_results_are_read_by_this_version(baselines, tmp_path):
    """Where a field of the results changes, `cell_archive` has to read the archived form."""
    results, _ = baselines.read(baselines.CELLS["costly"])
    found = results["pcl/seed-0"]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(found | {"format": RunResults.format}))
    assert read_results(path).training.evaluations == tuple(found["training"]["evaluations"])
