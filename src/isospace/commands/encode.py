"""The command `encode`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, LoadsModels
from isospace.commands.printing import print_json
from isospace.encoders.prompts import Side
from isospace.statistics.counts import number_of
from isospace.system.settings import settings
from isospace.vectors.encode_config import EncodeConfig


# Four settings in the form of the command line; `EncodeConfig` has their help.
@settings
class _Arguments(EncodeConfig):
    """The texts to encode, the model and the output."""

    model: Annotated[str, tyro.conf.Positional]
    inputs: Annotated[tuple[str, ...], tyro.conf.Positional]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    side: Annotated[Side | None, tyro.conf.arg(name="as")] = None


@dataclass(frozen=True)
class Encode(LoadsModels, CallsEndpoints):
    """Turn text of any size into files of vectors; a stopped run can be resumed."""

    config: _Arguments

    def run(self) -> None:
        """Encode the texts, or the rest of them after a stop."""
        from isospace.training.lifecycle import stoppable
        from isospace.vectors.encode import encode

        config = self.config

        def what_is_left() -> str:
            shards = f"{config.shard_folder} is kept; " if config.shard_folder.exists() else ""
            return f"{shards}the same command resumes"

        with Console(self.json) as console, stoppable(what_is_left):
            encoded = encode(config, console)
        if self.json:
            print_json({**asdict(encoded), "output": str(config.output)})
        console.line("encoded", f"{number_of(encoded.rows, 'rows')} in {config.output}")
