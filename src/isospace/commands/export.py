"""The command `export`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from isospace.commands.console import Console
from isospace.commands.options import LoadsModels
from isospace.commands.printing import print_json
from isospace.encoders.settings import EncoderSettings


@dataclass(frozen=True)
class Export(LoadsModels, EncoderSettings):
    """Options of `isospace export`."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A run's folder, a model folder, minilm, or a Hub name."""
    to: Literal["st", "onnx"]
    """What to write: st is the sentence-transformers folder that older versions and servers read,
    onnx a graph from token ids to the vector."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The folder to make; default: st or onnx in the run's folder, and for other models MODEL-st
    or MODEL-onnx in the current folder."""

    def run(self) -> None:
        """Export the model, and print what the check found."""
        from isospace.export.ship import export

        with Console(self.json) as console:
            shipment = export(self.model, self.to, self.output, self, console)
        if self.json:
            print_json({**asdict(shipment), "folder": str(shipment.folder)})
            return
        console.line("export", f"{self.model} as {self.to}, into {shipment.folder}")
        gap = f"{shipment.gap:.1e} (limit {shipment.limit:g})"
        console.line("parity", f"largest 1 - cosine to the model {gap}")
