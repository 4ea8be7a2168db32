"""Encoding of text of any size to files: streamed, in shards, resumable, in several processes."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from transformers.utils.logging import disable_progress_bar

from isospace.config import EncodeConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import UserError
from isospace.operators.compression import Compression
from isospace.operators.forms import FITTED_ON, FORMS, form_named
from isospace.system.cluster import connected, map_on_cluster, require_seen
from isospace.system.files import (
    building_of,
    file_hash,
    remove_building,
    remove_torn,
    require_writable,
)
from isospace.system.lifecycle import working_in
from isospace.system.progress import Logged, Progress
from isospace.vectors.texts import RowsSeen, Texts, open_texts
from isospace.vectors.vector_files import (
    FILE,
    MANIFEST,
    FileLayout,
    Shards,
    compression_file,
    find_compression,
    fit_compression,
    read_compression,
    require_shards,
    write_compression,
)


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
    vectors are the same bit for bit, whatever the number of threads and interruptions and the size
    of the shards.

    Args:
        config: settings.
        progress: shows the progress; default: the log.

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
        scanned = texts.scan()
        if not scanned.rows:
            raise UserError(f"{', '.join(config.inputs)}: no text to encode")
        if encoder.is_frozen:
            if config.engine != "local":
                raise UserError(
                    f"`engine` {config.engine}: the vectors of {config.model} come from a server "
                    "or a file, so `engine` has no effect. Leave `engine` out"
                )
            encoder.expect([(config.side, (row.text for row in texts))], progress)
        compression = _compression(config, encoder, texts, scanned.rows, progress)
        layout = FileLayout(
            config.file_format,
            encoder.dim,
            "text" if config.reading.id_column is None else "id",
            {"model": weights_hash(encoder, config.side), "precision": config.precision},
            compression,
            queries=config.side == "query",
        )
        folder = config.shard_folder
        with working_in(folder, f"{folder} is kept; the same command resumes"):
            settings = {**layout.settings, "text": scanned.digest}
            size, suffix = config.shard_size, f".{config.file_format}"
            shards = Shards(folder, settings, scanned.rows, size, suffix)
            if compression is not None:
                write_compression(folder / FILE, compression)
            seen = RowsSeen()
            missing = _missing(texts, shards, seen)
            encoded = _encode_missing(_Task(config, layout), encoder, missing, shards, progress)
            if seen.digest != scanned.digest:
                raise UserError(
                    f"{', '.join(config.inputs)}: the text changed while it was encoded. Encode it "
                    f"again: remove {folder}, or give another `output`"
                )
            if config.single:
                _join(config, layout, shards)
    return encoded


def _compression(
    config: EncodeConfig, encoder: Encoder, texts: Texts, rows: int, progress: Progress
) -> Compression | None:
    """Return the compression of the output: an earlier one, or one fitted on texts of the input."""
    if config.compress is None:
        return None
    form = form_named(config.compress)
    if form is None:
        compression = read_compression(find_compression(config.compress))
    elif (earlier := config.shard_folder / FILE).is_file():
        compression = read_compression(earlier)
    elif config.side == "query" and FORMS[form].fewest:
        raise UserError(
            f"`compress` {form}: is fitted on documents. For queries name their compressed vectors"
        )
    else:
        step = max(1, rows // FITTED_ON)
        some = [row.text for row in islice(texts, 0, None, step)]
        compression = fit_compression(form, encoder, some, progress, config.side)
    if compression.width != encoder.dim or (form is not None and compression.name != form):
        raise UserError(
            f"`compress` {config.compress}: the compression is {compression.name} for vectors of "
            f"{compression.width} dimensions, and {config.model} has {encoder.dim}. Give the "
            "vectors of this model, or another `output`"
        )
    if compression.form.rescored and config.file_format == "npy":
        raise UserError(f"`compress` {compression.name}: npy has no place for bits; write parquet")
    return compression


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
    before, done, speed, began = shards.rows_done, 0, 0.0, time.monotonic()
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
                shards.finish(*task.write(encoder, on_batch, shard))
        else:
            begin = partial(_on_cluster, task)
            for index, digest in map_on_cluster(begin, missing, task.config.workers):
                on_batch(shards.size(index))
                shards.finish(index, digest)
            remove_torn(task.config.shard_folder)  # files of workers that died
    return Encoded(shards.rows, before, done, speed)


def _missing(texts: Texts, shards: Shards, seen: RowsSeen) -> Iterator[_Shard]:
    """Yield the texts of the missing shards; `seen` counts and hashes every row of the text."""
    rows = seen.noting(texts)
    for index in range(len(shards)):
        shard = list(islice(rows, shards.size(index)))
        if len(shard) < shards.size(index):
            return  # the text is shorter now, and the digest of `seen` differs
        if index not in shards.done:
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

    def write(
        self, encoder: Encoder, on_batch: Callable[[int], None], shard: _Shard
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


def _on_cluster(task: _Task) -> Callable[[_Shard], tuple[int, str]]:
    """Load the model on a machine of a cluster, and return the function that writes a shard."""
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
    if layout.compression is not None:
        write_compression(compression_file(config.output), layout.compression)
    finished = building_of(config.shard_folder)
    config.shard_folder.replace(finished)
    shutil.rmtree(finished, ignore_errors=True)
