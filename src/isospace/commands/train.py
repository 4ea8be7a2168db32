"""The command `train`."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from isospace.commands.console import Console
from isospace.commands.help import WORDS
from isospace.commands.options import CallsEndpoints, LoadsModels
from isospace.commands.printing import print_finished
from isospace.config import TrainConfig
from isospace.errors import UserError, no_such
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
    json: bool = False
    """Print results.json on standard output, and no progress."""

    @classmethod
    def defaults(cls, words: Sequence[str]) -> Train:
        """Return the settings of the recipe that the words name."""
        if words and not words[0].startswith("-") and words[0] not in OBJECTIVES:
            raise UserError(_no_objective(words[0]))
        scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        scan.add_argument("--recipe", nargs="?")
        scan.add_argument("--resume", nargs="?")
        scan.add_argument("--json", action="store_true")
        scan.add_argument("--trust-remote-code", action="store_true")
        known, others = scan.parse_known_args([word for word in words if word not in WORDS])
        if known.resume and (known.recipe or others):
            refused = " ".join(filter(None, [known.recipe and "--recipe", *others]))
            raise UserError(
                f"--resume {known.resume}: uses the settings that the run was started with, so "
                f"{refused} has no effect. Leave that out, or start a new run"
            )
        name = known.recipe or DEFAULT_RECIPE
        config = find(name).config
        return cls(config=config, objective=config.objective, recipe=name)

    def run(self) -> None:
        """Train, or resume a run."""
        from isospace.system.launch import is_main_process

        where = "objectives come first, or last: isospace train --corpus FILE OBJECTIVE"
        require_no_objectives(self.config.text.corpus, where)
        config = None if self.resume else replace(self.config, objective=self.objective)
        with Console(self.json) as console:
            console.reading(self.config.text.corpus, self.resume)
            from isospace.training.train import train

            outcome = train(config, self.resume, console)
        if not is_main_process():  # not the first of the processes that share the run
            return
        print_finished(outcome, self.json)


def require_no_objectives(corpus: Sequence[str], where: str) -> None:
    """Refuse objectives, or misspelt ones, among the texts after `corpus`.

    `where` says where an objective belongs, for the message.
    """
    from isospace.corpus.sources import is_docstrings

    for word in corpus:
        name = word.partition(":")[0]
        if word == "-" or "://" in word or is_docstrings(word) or Path(word).exists():
            continue
        if name in OBJECTIVES:
            raise UserError(f"{word}: is read as a text, as it follows `corpus`; {where}")
        if not Path(word).suffix and get_close_matches(name, OBJECTIVES):
            raise UserError(
                f"{no_such('objective', name, OBJECTIVES)} There is no such file either"
            )


def _no_objective(word: str) -> str:
    """Return the message for a first word that is not an objective."""
    from isospace.corpus.sources import is_docstrings

    if is_docstrings(word) or Path(word).exists():
        return f"{word}: is a text, not an objective. Run isospace train --corpus {word}"
    return no_such("objective", word, OBJECTIVES)
