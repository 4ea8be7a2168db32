"""The command `ask`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, LoadsModels
from isospace.commands.printing import print_json
from isospace.questions.ask_config import AskConfig
from isospace.system.settings import settings


# The form of the command line; the class below has the help.
@settings
class _Arguments(AskConfig):
    """The text to ask about, and the language model."""

    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None


@dataclass(frozen=True)
class Ask(LoadsModels, CallsEndpoints):
    """Options of `isospace ask`."""

    corpus: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS")] = ()
    """The text whose passages the queries are for: folders or files, or docstrings for those of
    installed Python packages."""
    config: _Arguments = field(default_factory=_Arguments)

    def run(self) -> None:
        """Generate, filter and write the queries."""
        text = replace(self.config.text, corpus=(*self.corpus, *self.config.text.corpus))
        config = replace(self.config, text=text)
        with Console(self.json) as console:
            console.reading(text.corpus)
            from isospace.questions.ask import ask
            from isospace.training.lifecycle import stoppable

            with stoppable(lambda: "the answers so far are kept; the same command resumes"):
                results = ask(config, console)
        if self.json:
            print_json(results)
        for label, line in results.lines.items():
            console.line(label, line)
        console.line("file", f"{config.output}; counts in {config.counts_file}")
        if any(results.kept.values()):
            where = " ".join(map(shlex.quote, text.corpus))
            use = f"isospace adapt {where} --queries {shlex.quote(str(config.output))}"
        else:
            use = "no query was kept: try another language model"
        console.line("use", use)
