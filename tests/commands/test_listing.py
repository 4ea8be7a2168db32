"""Commands that list what there is: `objectives`, `recipes`, `doctor`."""

import json

from command_line import run, run_well

from isospace.config import TrainConfig
from isospace.objectives import OBJECTIVES
from isospace.recipes import RECIPES


def test_objectives(capsys):
    out, _ = run_well(capsys, "objectives")
    assert all(name in out for name in OBJECTIVES)
    _, out, _ = run(capsys, "objectives", "--json")
    assert [row["objective"] for row in json.loads(out)] == list(OBJECTIVES)


def test_recipes(capsys):
    _, out, _ = run(capsys, "recipes")
    row = next(line for line in out.splitlines() if "scd-bert-base " in line)
    assert [cell.strip() for cell in row.split("|")][3:5] == ["74.19", "85.52"]
    _, out, _ = run(capsys, "recipes", "--json")
    assert [row["recipe"] for row in json.loads(out)] == list(RECIPES)


def test_one_recipe(capsys):
    _, out, _ = run(capsys, "recipes", "simcse++-bert-base")
    assert "isospace train --recipe simcse++-bert-base --corpus FILE --data FOLDER |" in out
    _, out, _ = run(capsys, "recipes", "simcse++-bert-base", "--json")
    row = json.loads(out)
    assert row["sts_spearman_x100"]["Avg"] == 78.05
    assert row["stsb_dev_spearman_x100"] == 83.77
    assert row["other_runs"] is None
    assert TrainConfig(**row["config"]) == RECIPES[row["recipe"]].config


def test_doctor_misses_each_module_that_a_command_needs(capsys, monkeypatch):
    absent = {"onnxruntime", "uvicorn"}
    monkeypatch.setattr("isospace.commands.listing.find_spec", lambda x: x not in absent or None)
    _, out, _ = run(capsys, "doctor", "--json")
    found = {finding["name"]: finding for finding in json.loads(out)}
    for modules, missing in (
        ("onnx, onnxscript, onnxruntime", "without onnxruntime: pip install 'isospace[onnx]'"),
        ("starlette, uvicorn", "without uvicorn"),
    ):
        assert not found[modules]["ok"]
        assert missing in found[modules]["text"]


def test_doctor_says_that_the_cache_cannot_be_written(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ISOSPACE_CACHE", str(tmp_path / "file" / "cache"))
    _, out, _ = run(capsys, "doctor", "--json")
    [cache] = [finding for finding in json.loads(out) if finding["name"] == "cache"]
    assert not cache["ok"]
    assert "Set ISOSPACE_CACHE" in cache["text"]
