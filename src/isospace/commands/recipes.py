"""The command `recipes`: all published settings in a table, or one recipe in full."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Annotated, Any

import tyro

from isospace.commands.options import as_options
from isospace.commands.printing import print_json, print_result, print_table
from isospace.config import TrainConfig, objective_name
from isospace.recipes import HERE, RECIPES, Recipe, find
from isospace.system.settings import as_text

_WIDTH = 100
_ALWAYS_SHOWN = ("model", "batch_size", "learning_rate", "budget")


@dataclass(frozen=True)
class Recipes:
    """Options of `isospace recipes`."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")] = ""
    """Show everything about this recipe."""
    json: bool = False
    """Print the recipe, or all of them, as JSON."""

    def run(self) -> None:
        """Print the table or one recipe."""
        if self.json:
            name = self.name
            recipes = [_to_dict(*row) for row in RECIPES.items()]
            print_json(_to_dict(name, find(name)) if name else recipes)
        elif self.name:
            print_result(describe(self.name))
        else:
            print_table("recipes (averages as published)", overview())


def overview() -> list[dict[str, str]]:
    """Return a row for each recipe: its target, and the published averages."""
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


def describe(name: str) -> str:
    """Describe one recipe in full, in lines of at most 100 characters."""
    recipe = find(name)
    paper, dev = recipe.config.objective.paper, _cell(recipe.published_dev)
    lines = {
        "aims at": recipe.table,
        "STS": _numbers(recipe.published, "Spearman x 100, test sets"),
        "transfer": _numbers(recipe.published_transfer, "accuracy in per cent"),
        "STS-B dev": f"{dev} (Spearman x 100)" if dev else "",
        "other runs": _reruns(recipe),
        "reproduced": _span(recipe),
        "note": as_options(recipe.note),
        "here": as_options(HERE) if recipe.config.select == "labels" else "",
        "objective": f"{objective_name(recipe.config.objective)} ({paper.title}, {paper.year})",
        "corpus": recipe.corpus,
        "settings": ", ".join(f"{key} {value}" for key, value in settings(recipe).items()),
    }
    wrapped = (
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=f"{label:<11} ",
            subsequent_indent=" " * 12,
            break_on_hyphens=False,
            break_long_words=False,
        )
        for label, text in lines.items()
        if text
    )
    return "\n".join([name, *wrapped, f"  {command(name)}"])


def command(name: str) -> str:
    """Return the command line that runs a recipe."""
    data = " --data FOLDER" if RECIPES[name].config.select == "labels" else ""
    return f"isospace train --recipe {name} --corpus FILE{data}"


def settings(recipe: Recipe) -> dict[str, str]:
    """Return the main settings, and all other settings that differ from their defaults."""
    config, default = recipe.config, TrainConfig()
    shown = _changed(config, default) | _changed(config.text, default.text)
    shown |= _changed(config.objective, type(config.objective)())
    return {name.replace("_", "-"): as_text(value) for name, value in shown.items()}


def _changed(settings: Any, default: Any) -> dict[str, Any]:
    """Return the plain fields that are always shown, or differ from those of `default`."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {
        name: value
        for name, value in values.items()
        if not is_dataclass(value) and (name in _ALWAYS_SHOWN or value != getattr(default, name))
    }


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _numbers(values: Mapping[str, float], unit: str) -> str:
    cells = ", ".join(f"{column} {value:.2f}" for column, value in values.items())
    return f"{cells} ({unit})" if values else ""


def _reruns(recipe: Recipe) -> str:
    found = recipe.reruns
    return "" if found is None else f"{found.words} ({found.source})"


def _span(recipe: Recipe) -> str:
    if recipe.target is None or recipe.reproduced is None:
        return ""
    low, high = recipe.reproduced
    return f"by a score of {low:.2f} to {high:.2f} ({recipe.target[0]})"


def _to_dict(name: str, recipe: Recipe) -> dict[str, Any]:
    return {
        "recipe": name,
        "aims_at": recipe.table,
        "sts_spearman_x100": recipe.published,
        "transfer_accuracy": recipe.published_transfer,
        "stsb_dev_spearman_x100": recipe.published_dev,
        "other_runs": None if recipe.reruns is None else asdict(recipe.reruns),
        "counts_as_reproduced": recipe.reproduced,
        "note": as_options(recipe.note),
        "corpus": recipe.corpus,
        "command": command(name),
        "config": recipe.config.to_dict(),
    }
