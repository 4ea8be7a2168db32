"""Workers that write shards of vectors: this process, or those of a cluster."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from transformers.utils.logging import disable_progress_bar

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import UserError
from isospace.system.cluster import map_on_cluster, require_seen
from isospace.system.files import file_hash, remove_torn
from isospace.vectors.encode_config import EncodeConfig
from isospace.vectors.shards import MANIFEST
from isospace.vectors.vector_files import FileLayout


@dataclass(frozen=True)
class ShardTexts:
    """A shard to write; the keys are the texts or ids that Parquet stores with the vectors."""

    index: int
    path: Path
    texts: list[str]
    keys: list[str]


@dataclass(frozen=True)
class Task:
    """Settings of all shards of an output."""

    config: EncodeConfig
    layout: FileLayout

    def write(
        self, encoder: Encoder, shard: ShardTexts, on_batch: Callable[[int], None]
    ) -> tuple[int, str]:
        """Encode and write one shard; return its index and the hash of its file.

        Rows are sorted by length and batched within a window. A shard consists of whole windows, so
        that batches and vectors do not depend on the size of the shards.
        """
        windows = [
            encoder.embed(
                shard.texts[start : start + self.config.WINDOW],
                on_batch=on_batch,
                precision=self.config.precision,
                one_thread=True,
                side=self.config.side,
            )
            for start in range(0, len(shard.texts), self.config.WINDOW)
        ]
        self.layout.write(shard.path, shard.keys, np.concatenate(windows))
        return shard.index, file_hash(shard.path)


def load_model(config: EncodeConfig) -> Encoder:
    """Load the model with its prompts."""
    return load_encoder(
        config.model,
        config.pooling,
        query_prompt=config.query_prompt,
        document_prompt=config.document_prompt,
    )


def write_shards(
    task: Task, encoder: Encoder, shards: Iterator[ShardTexts], tick: Callable[[int], None]
) -> Iterator[tuple[int, str]]:
    """Write shards; yield index and hash of each written shard.

    Without a cluster, this process encodes with `encoder`. `tick` is called with numbers of encoded
    rows.

    Raises:
        UserError: a worker has another model, or does not see the output.
        Stopped: several workers of a cluster died on the same shard.
    """
    if task.config.engine == "local":
        yield from (task.write(encoder, shard, tick) for shard in shards)
        return
    for rows, written in map_on_cluster(partial(_on_cluster, task), shards, task.config.workers):
        tick(rows)
        yield written
    remove_torn(task.config.shard_folder)  # files of workers that died


def _on_cluster(task: Task) -> Callable[[ShardTexts], tuple[int, tuple[int, str]]]:
    """Load the model on a machine of a cluster, and return the function that writes a shard."""
    require_seen(task.config.shard_folder / MANIFEST)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    encoder = load_model(task.config)
    if weights_hash(encoder, task.config.side) != task.layout.about["model"]:
        raise UserError(
            f"{task.config.model}: the machine {socket.gethostname()} has a different model under "
            "this name. Give a folder that all machines share"
        )

    return lambda shard: (len(shard.texts), task.write(encoder, shard, lambda rows: None))
