"""The command `distill`."""

from __future__ import annotations

from dataclasses import dataclass, field

from isospace.commands.console import Console
from isospace.commands.options import LoadsModels
from isospace.commands.printing import print_json, print_result, print_table
from isospace.config import DistillConfig
from isospace.system.settings import to_dict


@dataclass(frozen=True)
class Distill(LoadsModels):
    """Options of `isospace distill`."""

    config: DistillConfig = field(default_factory=DistillConfig)

    def run(self) -> None:
        """Make the twin and print the results."""
        with Console(self.json) as console:
            console.reading(self.config.text.corpus or (self.config.model,))
            from isospace.export.distill import distill

            results = distill(self.config, console)
        load = results.how_to_load(self.config.output)
        if self.json:
            print_json(to_dict(results) | {"use": results.use, "load_it": load})
            return
        for title, rows in results.tables():
            print_table(title, rows)
        print_result(results.verdict)
        if results.other_words:
            console.line("other text", results.other_words)
        console.line("use", results.use)
        console.line("load it", load)
