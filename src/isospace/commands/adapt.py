"""The command `adapt`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from isospace.adaptation.adapt_config import AdaptConfig
from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, Corpora, LoadsModels
from isospace.commands.printing import print_finished
from isospace.commands.train import require_no_settings


@dataclass(frozen=True)
class Adapt(LoadsModels, CallsEndpoints):
    """Options of `isospace adapt`."""

    corpus: Corpora = ()
    """The text to adapt to: folders or files, or docstrings for those of installed Python
    packages."""
    config: AdaptConfig = field(default_factory=AdaptConfig)
    resume: Path | None = None
    """Continue the run in this folder with its own settings."""

    def run(self) -> None:
        """Run a search, or resume one."""
        config = self.config
        if self.corpus:
            text = replace(config.text, corpus=(*self.corpus, *config.text.corpus))
            config = replace(config, text=text)
        if self.resume:
            require_no_settings(self.resume, config, AdaptConfig())
        with Console(self.json) as console:
            console.reading(config.text.corpus, self.resume)
            from isospace.adaptation.adapt import adapt

            outcome = adapt(None if self.resume else config, self.resume, console)
        print_finished(outcome, self.json)
