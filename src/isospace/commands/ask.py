"""The command `ask`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, Corpora, LoadsModels
from isospace.commands.printing import print_json
from isospace.questions.ask_config import AskConfig


@dataclass(frozen=True)
class Ask(LoadsModels, CallsEndpoints):
    """Options of `isospace ask`."""

    corpus: Corpora = ()
    """The text whose passages the queries are for: folders or files, or docstrings for those of
    installed Python packages."""
    config: AskConfig = field(default_factory=AskConfig)

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
