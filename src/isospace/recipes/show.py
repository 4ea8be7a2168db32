"""Recipes for people and for programs: the overview, one row in full, JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from isospace.config import TrainConfig, objective_name
from isospace.recipes.base import HERE, Recipe
from isospace.recipes.table import RECIPES, find

_WIDTH = 100
_ALWAYS_SHOWN = ("model", "batch_size", "learning_rate", "budget")


def overview() -> list[dict[str, str]]:
    """A row of cells per recipe: what it aims at, and the averages that are published."""
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
    """Everything about one recipe, as text of at most 100 columns.

    Raises:
        UserError: no such recipe.
    """
    recipe = find(name)
    paper, dev = recipe.config.objective.paper, _cell(recipe.published_dev)
    lines = {
        "aims at": recipe.table,
        "STS": _numbers(recipe.published, "Spearman x 100, test sets"),
        "transfer": _numbers(recipe.published_transfer, "accuracy in per cent"),
        "STS-B dev": f"{dev} (Spearman x 100)" if dev else "",
        "note": recipe.note,
        "here": HERE if recipe.config.select == "labels" else "",
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


def as_json(name: str = "") -> str:
    """Everything about one recipe as a JSON object, or about all as an array.

    Raises:
        UserError: no such recipe.
    """
    return json.dumps(
        _to_dict(name, find(name)) if name else [_to_dict(*row) for row in RECIPES.items()],
        indent=2,
    )


def command(name: str) -> str:
    """The command line that runs a recipe."""
    data = " --data FOLDER" if RECIPES[name].config.select == "labels" else ""
    return f"isospace train --recipe {name} --corpus FILE{data}"


def settings(recipe: Recipe) -> dict[str, str]:
    """The main settings, and every one that differs from its field's default."""
    config, objective = recipe.config, recipe.config.objective
    default, plain = TrainConfig(), type(objective)()
    shown = {
        field.name: getattr(config, field.name)
        for field in fields(config)
        if field.name in _ALWAYS_SHOWN
        or (
            field.name not in ("text", "objective")
            and getattr(config, field.name) != getattr(default, field.name)
        )
    }
    for ours, theirs in ((config.text, default.text), (objective, plain)):
        shown |= {
            field.name: getattr(ours, field.name)
            for field in fields(ours)
            if getattr(ours, field.name) != getattr(theirs, field.name)
        }
    return {key.replace("_", "-"): _plain(value) for key, value in shown.items()}


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _numbers(values: Mapping[str, float], unit: str) -> str:
    cells = ", ".join(f"{column} {value:.2f}" for column, value in values.items())
    return f"{cells} ({unit})" if values else ""


def _to_dict(name: str, recipe: Recipe) -> dict[str, Any]:
    return {
        "recipe": name,
        "aims_at": recipe.table,
        "sts_spearman_x100": recipe.published,
        "transfer_accuracy": recipe.published_transfer,
        "stsb_dev_spearman_x100": recipe.published_dev,
        "note": recipe.note,
        "corpus": recipe.corpus,
        "command": command(name),
        "config": recipe.config.to_dict(),
    }
