"""`isospace recipes`: the table, and one row in full."""

from __future__ import annotations

import json

import pytest

from isospace.cli import main
from isospace.commands.options import as_options
from isospace.commands.recipes import describe, overview
from isospace.config import TrainConfig
from isospace.recipes import RECIPES


@pytest.mark.parametrize("name", RECIPES)
def test_one_row_in_full_fits_100_columns(name):
    recipe, text = RECIPES[name], describe(name)
    assert max(map(len, text.splitlines())) <= 100
    words = " ".join(text.split())
    assert text.splitlines()[-1].startswith(f"  isospace train --recipe {name} --corpus FILE")
    assert as_options(recipe.note) in words
    for column, value in (recipe.published | recipe.published_transfer).items():
        assert column in words
        assert f"{value:.2f}" in words
    assert f"model {recipe.config.model}" in words
    assert f"learning-rate {recipe.config.learning_rate:g}" in words


def test_the_command(capsys):
    assert main(["recipes"]) == 0
    out = capsys.readouterr().out
    widths = [max(len(row[column]) for row in overview()) for column in ("recipe", "aims at")]
    assert sum(widths) + 5 + len("transfer") + 5 + 3 * 5 + 1 <= 100, "a terminal would fold"
    row = next(line for line in out.splitlines() if "scd-bert-base " in line)
    assert [cell.strip() for cell in row.split("|")][3:5] == ["74.19", "85.52"]
    assert len(overview()) == len(RECIPES)

    assert main(["recipes", "simcse++-bert-base"]) == 0
    assert capsys.readouterr().out == describe("simcse++-bert-base") + "\n"

    assert main(["recipes", "simcse++-bert-base", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["sts_spearman_x100"]["Avg"] == 78.05
    assert row["stsb_dev_spearman_x100"] == 83.77
    assert row["other_runs"] is None
    assert row["counts_as_reproduced"] == pytest.approx([76.05, 80.05])
    assert TrainConfig.from_json(json.dumps(row["config"])) == RECIPES[row["recipe"]].config

    assert main(["recipes", "--json"]) == 0
    assert [row["recipe"] for row in json.loads(capsys.readouterr().out)] == list(RECIPES)

    assert main(["recipes", "simcse-bert"]) == 2
    assert "Did you mean simcse-bert-" in capsys.readouterr().err
