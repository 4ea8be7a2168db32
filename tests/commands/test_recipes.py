"""`isospace recipes`: the table, and one row in full."""

import json

from isospace.cli import main
from isospace.commands.listing import overview
from isospace.config import TrainConfig
from isospace.recipes import RECIPES


def test_the_command(capsys):
    assert main(["recipes"]) == 0
    out = capsys.readouterr().out
    widths = [max(len(row[column]) for row in overview()) for column in ("recipe", "aims at")]
    assert sum(widths) + 5 + len("transfer") + 5 + 3 * 5 + 1 <= 100, "a terminal would fold"
    row = next(line for line in out.splitlines() if "scd-bert-base " in line)
    assert [cell.strip() for cell in row.split("|")][3:5] == ["74.19", "85.52"]
    assert len(overview()) == len(RECIPES)

    assert main(["recipes", "simcse++-bert-base"]) == 0
    out = capsys.readouterr().out
    assert "isospace train --recipe simcse++-bert-base --corpus FILE --data FOLDER |" in out

    assert main(["recipes", "simcse++-bert-base", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["sts_spearman_x100"]["Avg"] == 78.05
    assert row["stsb_dev_spearman_x100"] == 83.77
    assert row["other_runs"] is None
    assert TrainConfig.from_json(json.dumps(row["config"])) == RECIPES[row["recipe"]].config

    assert main(["recipes", "--json"]) == 0
    assert [row["recipe"] for row in json.loads(capsys.readouterr().out)] == list(RECIPES)
