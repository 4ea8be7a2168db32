"""Encoding of text of any size to files: streamed, in shards, resumable, in several processes."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from transformers.utils.logging import disable_progress_bar

from isospace.config import EncodeConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import UserError
from isospace.system.cluster import connected, map_on_cluster, require_seen
from isospace.system.files import (
    building_of,
    remove_building,
    remove_torn,
    require_writable,
)
from isospace.system.lifecycle import working_in
from isospace.system.progress import Logged, Progress
from isospace.vectors.texts import Texts, open_texts
from isospace.vectors.vector_files import MANIFEST, FileLayout, Shards, require_shards

SHARD_ROWS = 4096
"""Rows of a shard, which are sorted by length together. A kill costs each worker one shard."""


@dataclass(frozen=True)
class Encoded:
    """Result of a call of `encode`."""

    rows: int
    before: int
    done: int
    speed: float


def encode(config: EncodeConfig, progress: Progress | None = None) -> Encoded:
    """Encode files to files, or resume an earlier call that was stopped.

    Memory holds the model, and for each worker one shard of texts and vectors. On one machine the
    vectors are the same bit for bit, whatever the number of threads and interruptions.

    Raises:
        UserError: input, model or an earlier output is unusable.
        Stopped: a signal came (then `Interrupted`), or the disk is full. Finished shards are kept.
    """
    progress = progress or Logged()
    _require_room(config)
    with connected(config.engine), open_texts(config.inputs, config.reading) as texts:
        encoder = load_encoder(config.model, config)
        if prompt := encoder.prompts.for_side(config.side):
            progress.line("prompt", f"{prompt!r} before every text")
        rows, digest = texts.scan()
        if not rows:
            raise UserError(f"{', '.join(config.inputs)}: no text to encode")
        if encoder.is_frozen:
            if config.engine != "local":
                raise UserError(
                    f"`engine` {config.engine}: the vectors of {config.model} come from a server, "
                    "so `engine` has no effect. Leave `engine` out"
                )
            encoder.expect([(config.side, (row.text for row in texts))], progress)
        layout = FileLayout(
            config.file_format,
            encoder.dim,
            "text" if config.reading.id_column is None else "id",
            {"model": weights_hash(encoder, config.side), "precision": config.precision},
            config.compress,
        )
        folder = config.shard_folder
        with working_in(folder, f"{folder} is kept; the same command resumes"):
            settings = {**layout.settings, "text": digest}
            suffix = f".{config.file_format}"
            shards = Shards(folder, settings, rows, SHARD_ROWS, suffix)
            seen = blake2b(digest_size=16)
            missing = _missing(texts, shards, seen)
            encoded = _encode_missing(_Task(config, layout), encoder, missing, shards, progress)
            if seen.hexdigest() != digest:
                raise UserError(
                    "the text changed while it was encoded. Encode it again: remove "
                    f"{folder}, or give another `output`"
                )
            if config.single:
                _join(config, layout, shards)
    return encoded


def _require_room(config: EncodeConfig) -> None:
    remove_building(config.shard_folder)  # a finished folder that a kill kept from being removed
    begun = (config.shard_folder / MANIFEST).is_file()
    if config.single and config.output.exists() and not begun:
        raise UserError(f"{config.output}: exists already. Remove it, or give another `output`")
    require_shards(config.shard_folder)
    require_writable(config.shard_folder, inside=True)


def _encode_missing(
    task: _Task,
    encoder: Encoder,
    missing: Iterator[_Shard],
    shards: Shards,
    progress: Progress,
) -> Encoded:
    before = shards.rows - sum(map(shards.size, shards.missing))
    done, speed, began = 0, 0.0, time.monotonic()
    if before:
        progress.line("encode", f"{before:,} of {shards.rows:,} rows were there already")
    with progress.bar("encode", shards.rows, before) as advance:

        def on_batch(rows: int) -> None:
            nonlocal done, speed
            done += rows
            speed = done / max(time.monotonic() - began, 1e-9)
            advance(rows, f"{speed:,.0f} sentences/s")

        if task.config.engine == "local":
            for shard in missing:
                task.write(encoder, on_batch, shard)
        else:
            begin = partial(_on_cluster, task)
            for index in map_on_cluster(begin, missing, task.config.workers):
                on_batch(shards.size(index))
            remove_torn(task.config.shard_folder)  # files of workers that died
    return Encoded(shards.rows, before, done, speed)


def _missing(texts: Texts, shards: Shards, seen: blake2b) -> Iterator[_Shard]:
    """Yield the texts of the missing shards; `seen` hashes all rows, since a text may change."""
    rows = texts.hashed(seen)
    for index in range(len(shards)):
        shard = list(islice(rows, shards.size(index)))
        if len(shard) < shards.size(index):
            return  # the text is shorter now
        if index in shards.missing:
            contents = [row.text for row in shard]
            keys = contents if texts.reading.id_column is None else [row.key for row in shard]
            yield _Shard(index, shards.path(index), contents, keys)


@dataclass(frozen=True)
class _Shard:
    """A shard to write; the keys are the texts or ids that Parquet stores with the vectors."""

    index: int
    path: Path
    texts: list[str]
    keys: list[str]


@dataclass(frozen=True)
class _Task:
    """Settings of all shards of an output."""

    config: EncodeConfig
    layout: FileLayout

    def write(self, encoder: Encoder, on_batch: Callable[[int], None], shard: _Shard) -> int:
        """Encode and write one shard; return its index."""
        vectors = encoder.embed(
            shard.texts,
            on_batch=on_batch,
            precision=self.config.precision,
            one_thread=True,
            side=self.config.side,
        )
        self.layout.write(shard.path, shard.keys, vectors)
        return shard.index


def _on_cluster(task: _Task) -> Callable[[_Shard], int]:
    """Load the model on a machine of a cluster; return the function that writes a shard."""
    require_seen(task.config.shard_folder / MANIFEST)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    encoder = load_encoder(task.config.model, task.config)
    if weights_hash(encoder, task.config.side) != task.layout.about["model"]:
        raise UserError(
            f"{task.config.model}: the machine {socket.gethostname()} has a different model under "
            "this name. Give a folder that all machines share"
        )
    return partial(task.write, encoder, lambda rows: None)


def _join(config: EncodeConfig, layout: FileLayout, shards: Shards) -> None:
    """Make the single file, then remove the shards in one step, so that none is left alone."""
    parts = [shards.path(index) for index in range(len(shards))]
    layout.join(parts, shards.rows, config.output)
    if config.file_format == "npy":  # a Parquet file holds its settings
        shards.write_manifest(config.output.with_name(f"{config.output.name}.json"))
    finished = building_of(config.shard_folder)
    config.shard_folder.replace(finished)
    shutil.rmtree(finished, ignore_errors=True)
