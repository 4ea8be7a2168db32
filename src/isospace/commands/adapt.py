"""The command `adapt`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from isospace.adaptation.adapt_config import AdaptConfig
from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, LoadsModels, as_options
from isospace.commands.printing import print_finished, print_result
from isospace.errors import TooLittle, UserError
from isospace.system.settings import settings


# Two settings in the form of the command line; the class below has their help.
@settings
class _Arguments(AdaptConfig):
    """Adapt a base model to a text within a budget of time."""

    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None


@dataclass(frozen=True)
class Adapt(LoadsModels, CallsEndpoints):
    """Options of `isospace adapt`."""

    corpus: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS")] = ()
    """The text to adapt to: folders or files, or docstrings for those of installed Python
    packages."""
    config: _Arguments = field(default_factory=_Arguments)
    resume: Path | None = None
    """Continue the run in this folder with its own settings."""
    json: bool = False
    """Print results.json on standard output, and no progress."""

    def run(self) -> None:
        """Run a search, or resume one."""
        from isospace.statistics.verdict import VerdictKind

        config = self.config
        if self.resume and (self.corpus or config != _Arguments()):
            raise UserError(
                f"--resume {self.resume}: uses the settings that the run was started with. Leave "
                "other settings out, or start a new run"
            )
        if self.corpus:
            text = replace(config.text, corpus=(*self.corpus, *config.text.corpus))
            config = replace(config, text=text)
        try:
            with Console(self.json) as console:
                console.reading(config.text.corpus, self.resume)
                from isospace.adaptation.adapt import adapt

                outcome = adapt(None if self.resume else config, self.resume, console)
        except TooLittle as error:
            reason = as_options(str(error))
            verdict = {"kind": VerdictKind.KEEP_BASE, "text": f"Keep the base model: {reason}"}
            print_result(json.dumps({"verdict": verdict}) if self.json else verdict["text"])
            return
        print_finished(outcome, self.json)
