"""docs/results/reproduce.md: its tables are those of the recipes."""

from __future__ import annotations

import runpy
from pathlib import Path

from isospace.commands.recipes import command
from isospace.recipes import RECIPES

OPTIONS = "--corpus FILE --data FOLDER"
ROOT = Path(__file__).parents[2]


def test_the_page_is_drawn_from_the_recipes():
    docs = runpy.run_path(str(ROOT / "scripts" / "docs.py"))
    page = docs["REPRODUCE"].read_text(encoding="utf-8")
    assert docs["with_recipes"](page) == page
    for name, recipe in RECIPES.items():
        shown = f"\n| `{name}` | {recipe.table} |" in page
        assert shown == name.endswith("-base"), name
        # The page has one command for all rows.
        assert not shown or command(name) == f"isospace train --recipe {name} {OPTIONS}"


def test_what_counts_as_reproduced():
    spans = {name: recipe.reproduced for name, recipe in RECIPES.items()}
    assert spans["simcse-bert-base"] == (73.16, 76.70)  # of 50 seeds
    assert spans["simcse-roberta-base"] == (74.17, 76.57)  # the published score is above all seeds
    assert spans["promptbert-bert-base"] == (77.54, 79.54)  # three deviations are below a point
    assert spans["mixcse-bert-base"] == (75.83, 79.49)
    assert spans["scd-bert-base-self-contrast"] == (33.70, 37.70)  # STS12-16
    assert spans["dropout"] is None
