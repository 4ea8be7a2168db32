"""The command `encode`."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, LoadsModels
from isospace.commands.printing import print_json
from isospace.errors import number_of
from isospace.vectors.encode_config import EncodeConfig


@dataclass(frozen=True)
class Encode(LoadsModels, CallsEndpoints):
    """Turn text of any size into files of vectors; a stopped run can be resumed."""

    config: EncodeConfig

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
