"""The verb `whiten`."""

from __future__ import annotations

from dataclasses import dataclass, field

from isospace.system.typed_json import to_json
from isospace.verbs.console import Console
from isospace.verbs.printing import print_result, print_table
from isospace.whiten.whiten import WhitenConfig, whiten_model


@dataclass(frozen=True)
class Whiten:
    """Whiten a model's vectors by a corpus, and say whether that helped."""

    config: WhitenConfig = field(default_factory=WhitenConfig)
    json: bool = False
    """Print everything as JSON and no progress."""

    def run(self) -> int:
        """Whiten, print."""
        results = whiten_model(self.config, Console(self.json))
        if results is None:  # processes other than the first
            return 0
        if self.json:
            print_result(to_json(results))
            return 0
        for title, rows in results.tables():
            print_table(title, rows)
        print_result(
            f"{results.text} Read back by sentence-transformers, its vectors are those that were "
            f"measured (largest 1 - cosine: {results.gap:.1e})."
        )
        return 0
