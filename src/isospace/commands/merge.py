"""The command `merge`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isospace.commands.console import Console
from isospace.commands.options import LoadsModels
from isospace.commands.printing import print_json


@dataclass(frozen=True)
class Merge(LoadsModels):
    """Options of `isospace merge`."""

    base: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="BASE")]
    """The model that the others were trained from: minilm, a model folder, the folder of a run, or
    a Hub name."""
    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL ...")]
    """The models that were trained from BASE, named in the same way; several are averaged."""
    to: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """The folder to make, for sentence-transformers."""
    share: float = 0.5
    """How far from the base model: 0 is the base model, 1 the mean of the models."""

    def run(self) -> None:
        """Merge the models, and print what the check of the folder found."""
        from isospace.export.merge import merge_models

        with Console(self.json) as console:
            gap = merge_models(self.base, self.models, self.share, self.to)
        if self.json:
            print_json({"to": str(self.to), "gap": gap})
            return
        mean = f"the mean of {', '.join(self.models)}" if len(self.models) > 1 else self.models[0]
        console.line("merge", f"{self.share:g} of the way from {self.base} to {mean}")
        console.line("parity", f"largest 1 - cosine of the folder to these weights: {gap:.1e}")
        console.line("load it", f'SentenceTransformer("{self.to}")')
