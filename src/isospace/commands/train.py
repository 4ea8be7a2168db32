"""The command `train`."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, LoadsModels
from isospace.commands.printing import print_finished
from isospace.config import TrainConfig
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES
from isospace.objectives.base import Objective
from isospace.recipes import find

DEFAULT_RECIPE = "dropout"
if TYPE_CHECKING:
    _ObjectiveChoice = Objective
else:
    _ObjectiveChoice = tyro.extras.subcommand_type_from_defaults(
        {name: kind() for name, kind in OBJECTIVES.items()},
        {name: inspect.getdoc(kind).splitlines()[0] for name, kind in OBJECTIVES.items()},
        prefix_names=False,
    )


@dataclass(frozen=True)
class Train(LoadsModels, CallsEndpoints):
    """Options of `isospace train`."""

    config: TrainConfig = field(default_factory=lambda: find(DEFAULT_RECIPE).config)
    objective: _ObjectiveChoice = field(
        default_factory=lambda: find(DEFAULT_RECIPE).config.objective
    )
    """The objective to train with; what follows its name are its own options, which NAME --help
    lists."""
    recipe: str = DEFAULT_RECIPE
    """Take the settings of a row of `isospace recipes`; other options override single ones."""
    resume: Path | None = None
    """Continue the run in this folder with its own settings."""

    @classmethod
    def defaults(cls, words: Sequence[str]) -> Train:
        """Return the settings of the recipe that the words name."""
        scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        scan.add_argument("--recipe", nargs="?")
        name = scan.parse_known_args(words)[0].recipe or DEFAULT_RECIPE
        config = find(name).config
        return cls(config=config, objective=config.objective, recipe=name)

    def run(self) -> None:
        """Train, or resume a run."""
        from isospace.system.signals import is_main_process

        config: TrainConfig | None = replace(self.config, objective=self.objective)
        if self.resume:
            require_no_settings(self.resume, config, find(DEFAULT_RECIPE).config)
            config = None
        with Console(self.json) as console:
            console.reading(self.config.text.corpus, self.resume)
            from isospace.training.train import train

            outcome = train(config, self.resume, console)
        if not is_main_process():  # not the first of the processes that share the run
            return
        print_finished(outcome, self.json)


def require_no_settings(resume: Path, given: Any, default: Any) -> None:
    """Refuse settings together with a run to resume, which has its own."""
    if given != default:
        raise UserError(
            f"--resume {resume}: uses the settings that the run was started with. Leave other "
            "settings out, or start a new run"
        )
