"""Encoding of text of any size to files: streamed, in shards, resumable, in several processes."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import weights_hash
from isospace.errors import Stopped, UserError
from isospace.evaluation.compression import FITTED_ON
from isospace.operators.compression import Compression
from isospace.operators.forms import FORMS
from isospace.system.cluster import connected
from isospace.system.files import require_writable, write_text
from isospace.system.progress import Logged, Progress
from isospace.vectors.compression_file import (
    FILE,
    beside,
    find_compression,
    fit_compression,
    read_compression,
    write_compression,
)
from isospace.vectors.encode_config import EncodeConfig
from isospace.vectors.shards import MANIFEST, Shards, held, require_shards
from isospace.vectors.texts import RowsSeen, Texts, open_texts
from isospace.vectors.vector_files import FileLayout, Key
from isospace.vectors.workers import ShardTexts, Task, load_model, write_shards


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
        Stopped: the disk is full or fails. Finished shards are kept.
    """
    progress = progress or Logged()
    _require_room(config)
    columns = config.column, config.id_column, config.encoding
    with (
        connected(config.engine),
        open_texts(config.inputs, *columns, reading=config.reading) as texts,
    ):
        encoder = load_model(config)
        if prompt := encoder.prompts.for_side(config.side):
            progress.line("prompt", f"{prompt!r} before every text")
        scanned = texts.scan()
        if not scanned.rows:
            raise UserError(f"{', '.join(config.inputs)}: no text to encode")
        if encoder.is_frozen:
            _require_alone(config)
            encoder.expect([(config.side, (row.text for row in texts))], progress)
        layout = _layout(
            config, encoder, _compression(config, encoder, texts, scanned.rows, progress)
        )
        settings = {**layout.about, **layout.to_json(), "text": scanned.digest}
        with _failing_disk(config), held(config.shard_folder):
            size, suffix = config.shard_size, f".{config.file_format}"
            shards = Shards(config.shard_folder, settings, scanned.rows, size, suffix)
            if layout.compression is not None:
                write_compression(config.shard_folder / FILE, layout.compression)
            seen = RowsSeen()
            jobs = _jobs(texts, shards, seen)
            task = Task(config, layout)
            encoded = _encode_missing(task, encoder, jobs, shards, progress)
            if seen.digest != scanned.digest:
                raise UserError(
                    f"{', '.join(config.inputs)}: the text changed while it was encoded. Encode it "
                    f"again: remove {config.shard_folder}, or give another `output`"
                )
            if config.single:
                _join(config, layout, shards)
    return encoded


def _require_alone(config: EncodeConfig) -> None:
    """Refuse settings of local encoding, because the vectors come from an endpoint or a file."""
    for name in ("workers", "engine"):
        if (value := getattr(config, name)) != getattr(EncodeConfig, name):
            raise UserError(
                f"`{name}` {value}: the vectors of {config.model} are given, and an endpoint gets "
                f"several requests at once anyway. Leave `{name}` out"
            )


def _compression(
    config: EncodeConfig, encoder: Encoder, texts: Texts, rows: int, progress: Progress
) -> Compression | None:
    """Return the compression of the output: an earlier one, or one fitted on texts of the input."""
    form = next((name for name in FORMS if name == config.compress), None)
    if config.compress is None:
        return None
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


def _layout(config: EncodeConfig, encoder: Encoder, compression: Compression | None) -> FileLayout:
    about: dict[str, Any] = {
        "model": weights_hash(encoder, config.side),
        "precision": config.precision,
    }
    key: Key = "text" if config.id_column is None else "id"
    queries = config.side == "query"
    return FileLayout(config.file_format, encoder.dim, key, about, compression, queries)


def _require_room(config: EncodeConfig) -> None:
    begun = (config.shard_folder / MANIFEST).is_file()
    if config.single and config.output.exists() and not begun:
        raise UserError(f"{config.output}: exists already. Remove it, or give another `output`")
    require_shards(config.shard_folder)
    for name in config.inputs:  # the next call would read the output as text
        if Path(name).is_dir() and Path(name).resolve() in config.output.resolve().parents:
            raise UserError(
                f"`output` {config.output}: is inside the folder to encode ({name}). Give a place "
                "outside it"
            )
    require_writable(config.shard_folder, inside=True)


@contextmanager
def _failing_disk(config: EncodeConfig) -> Iterator[None]:
    """Raise `Stopped` if the disk is full or fails; finished shards are kept."""
    try:
        yield
    except OSError as error:
        raise Stopped(
            f"{error.filename or config.output} cannot be written: {error.strerror or error}. "
            "Solve this, for instance free disk space, and run the same command again. Finished "
            f"shards are kept in {config.shard_folder}"
        ) from error


def _encode_missing(
    task: Task,
    encoder: Encoder,
    jobs: Iterator[ShardTexts],
    shards: Shards,
    progress: Progress,
) -> Encoded:
    """Write the missing shards."""
    before, done, speed = shards.rows_done, 0, 0.0
    if before:
        progress.line("encode", f"{before:,} of {shards.rows:,} rows were there already")
    first_batch: tuple[float, int] | None = None  # time of its end, and its rows
    with progress.bar("encode", shards.rows, before) as advance:

        def on_batch(rows: int) -> None:
            nonlocal done, speed, first_batch
            done, now = done + rows, time.monotonic()
            if first_batch is None and rows:
                first_batch = now, done
            elif first_batch is not None and now > first_batch[0]:
                speed = (done - first_batch[1]) / (now - first_batch[0])
            advance(rows, f"{speed:,.0f} sentences/s" if speed else "")

        for index, digest in write_shards(task, encoder, jobs, on_batch):
            shards.finish(index, digest)
    return Encoded(shards.rows, before, done, speed)


def _jobs(texts: Texts, shards: Shards, seen: RowsSeen) -> Iterator[ShardTexts]:
    """Yield the texts of the missing shards; `seen` counts and hashes every row of the text."""
    rows = seen.noting(texts)
    for index in range(len(shards)):
        shard = list(islice(rows, shards.size(index)))
        if len(shard) < shards.size(index):
            return  # the text is shorter now, and the digest of `seen` differs
        if index not in shards.done:
            contents = [row.text for row in shard]
            keys = contents if texts.id_column is None else [row.key for row in shard]
            yield ShardTexts(index, shards.path(index), contents, keys)


def _join(config: EncodeConfig, layout: FileLayout, shards: Shards) -> None:
    """Make the single file, then remove the shards."""
    parts = [shards.path(index) for index in range(len(shards))]
    layout.join(parts, shards.rows, config.output)
    if config.file_format == "npy":  # a Parquet file holds its settings
        about = json.dumps(shards.to_json(), indent=2) + "\n"
        write_text(config.output.with_name(f"{config.output.name}.json"), about)
    if layout.compression is not None:
        write_compression(beside(config.output), layout.compression)
    shutil.rmtree(config.shard_folder, ignore_errors=True)
