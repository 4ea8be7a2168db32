"""The command `whiten`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, LoadsModels
from isospace.commands.printing import print_json, print_result, print_table
from isospace.system.settings import to_dict
from isospace.whiten.whiten_config import WhitenConfig


@dataclass(frozen=True)
class Whiten(LoadsModels, CallsEndpoints):
    """Options of `isospace whiten`."""

    config: WhitenConfig = field(default_factory=WhitenConfig)

    def run(self) -> None:
        """Whiten the model and print the results."""
        with Console(self.json) as console:
            console.reading(self.config.text.corpus)
            from isospace.evaluation.other_text import other_text_words
            from isospace.training.card import how_to_load
            from isospace.whiten.whiten import whiten_model

            results = whiten_model(self.config, console)
        if results is None:  # not the first process
            return
        load = how_to_load(Path(str(self.config.output)))
        if self.json:
            print_json(to_dict(results) | {"use": results.recommendation, "load_it": load})
            return
        for title, rows in results.tables():
            print_table(title, rows)
        print_result(f"{results.verdict.text} {results.written}")
        if results.other_text_gains:
            console.line("other text", other_text_words(results.other_text_gains))
        console.line("use", results.recommendation)
        console.line(
            "parity", f"largest 1 - cosine of the folder to what was measured: {results.gap:.1e}"
        )
        console.line("load it", load)
