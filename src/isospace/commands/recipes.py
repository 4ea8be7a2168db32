"""The command `recipes`: all published settings in a table, or one recipe in full."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import tyro

from isospace.commands.options import PrintsJson, as_options
from isospace.commands.printing import print_json, print_table
from isospace.recipes import RECIPES, Recipe, find


@dataclass(frozen=True)
class Recipes(PrintsJson):
    """Options of `isospace recipes`."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")] = ""
    """Show everything about this recipe."""

    def run(self) -> None:
        """Print the table or one recipe."""
        if self.json:
            name = self.name
            recipes = [_to_dict(*row) for row in RECIPES.items()]
            print_json(_to_dict(name, find(name)) if name else recipes)
        elif self.name:
            found = _to_dict(self.name, find(self.name))
            found |= found.pop("config")
            rows = [{"": name, "value": _text(value)} for name, value in found.items() if value]
            print_table(self.name, rows)
        else:
            print_table("recipes (averages as published)", overview())


def overview() -> list[dict[str, str]]:
    """Return a row for each recipe: the source of its scores, and the published averages."""
    return [
        {
            "recipe": name,
            "aims at": recipe.table,
            "STS": _cell(recipe.published.get("Avg")),
            "transfer": _cell(recipe.published_transfer.get("Avg")),
            "dev": _cell(recipe.published_dev),
        }
        for name, recipe in RECIPES.items()
    ]


def command(name: str) -> str:
    """Return the command line that runs a recipe."""
    data = " --data FOLDER" if RECIPES[name].config.select == "labels" else ""
    return f"isospace train --recipe {name} --corpus FILE{data}"


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _to_dict(name: str, recipe: Recipe) -> dict[str, Any]:
    return {
        "recipe": name,
        "aims_at": recipe.table,
        "sts_spearman_x100": recipe.published,
        "transfer_accuracy": recipe.published_transfer,
        "stsb_dev_spearman_x100": recipe.published_dev,
        "other_runs": None if recipe.reruns is None else asdict(recipe.reruns),
        "note": as_options(recipe.note),
        "corpus": recipe.corpus,
        "command": command(name),
        "config": recipe.config.to_dict(),
    }
