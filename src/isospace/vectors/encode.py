"""Encode text of any size to files: streamed, in shards, resumable, by several processes."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import tyro

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.encoders.precision import Precision
from isospace.errors import UserError
from isospace.system.files import write_text
from isospace.vectors.records import Records, RowsHash, open_records
from isospace.vectors.shards import Shards, held, require_shards
from isospace.vectors.vector_files import Dtype, Format, Key, Layout
from isospace.vectors.workers import Job, Task, write_shards

WINDOW = 4096
"""So many rows are sorted by length together; a shard is a multiple of it."""

_SINGLE: dict[str, Format] = {".parquet": "parquet", ".npy": "npy"}


@dataclass(frozen=True)
class EncodeConfig:
    """What to encode, by which model, into what."""

    model: Annotated[str, tyro.conf.Positional]
    """minilm, a model folder, a run's folder, or a Hub name."""
    inputs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Files (txt, jsonl, csv, tsv, parquet; .gz or .zst), folders, - for standard input, or
    docstrings. Every row gets a vector, an empty line that of the empty text."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """A folder of shards, or one file if it ends in .parquet or .npy."""
    column: str = "text"
    """Which column of jsonl, csv, tsv and parquet files holds the texts."""
    id_column: str | None = None
    """Which column holds ids, to be written instead of the texts."""
    encoding: str = "utf-8"
    """Encoding of the text files."""
    dtype: Dtype = "float32"
    """Of the vectors in the files: int8 with a scale for each, binary by sign, eight to a byte."""
    format: Format | None = None
    """Of the shards; default: parquet, or what `output` ends in."""
    precision: Precision = "float32"
    """bf16 is faster where the processor has it; a vector moves by a cosine of about 1e-4."""
    max_length: int | None = None
    """Texts are cut to so many tokens; default: the model's own limit."""
    shard_size: int = 4 * WINDOW
    """Rows of a shard: what a kill can cost each worker."""
    workers: int = 1
    """Processes, each with the model in memory; the processor's threads are divided among them."""

    def __post_init__(self) -> None:
        """Refuse values that cannot be meant."""
        if not self.inputs:
            raise UserError("give one or more files to encode, or - for standard input")
        if self.shard_size < 1 or self.shard_size % WINDOW:
            raise UserError(
                f"`shard_size` {self.shard_size}: expected a multiple of {WINDOW}: rows that are "
                "batched together stay together"
            )
        if self.workers < 1:
            raise UserError(f"`workers` {self.workers}: expected 1 or more")
        if self.max_length is not None and self.max_length < 3:
            raise UserError(f"`max_length` {self.max_length}: no word is left; expected 3 or more")
        if self.format is not None and self.kind != self.format:
            raise UserError(f"`format` {self.format}: `output` ends in {self.output.suffix}")
        if self.id_column is not None and self.kind == "npy":
            raise UserError("`id_column`: npy holds vectors only, in the order of the rows")

    @property
    def kind(self) -> Format:
        """The format of what is written."""
        return _SINGLE.get(self.output.suffix, self.format or "parquet")

    @property
    def single(self) -> bool:
        """Whether one file is made of the shards."""
        return self.output.suffix in _SINGLE

    @property
    def shard_folder(self) -> Path:
        """Where the shards are, for good or until one file is made of them."""
        return self.output.with_name(f"{self.output.name}.parts") if self.single else self.output


@dataclass(frozen=True)
class Progress:
    """How far it is.

    Attributes:
        rows: of the whole output.
        before: rows that an earlier process had finished.
        done: rows that have been encoded now.
        speed: sentences per second since the first batch, 0 before the second.
    """

    rows: int
    before: int
    done: int
    speed: float

    @property
    def seconds_left(self) -> float | None:
        """Estimated, `None` before the second batch."""
        left = self.rows - self.before - self.done
        return left / self.speed if self.speed else None


def encode(config: EncodeConfig, report: Callable[[Progress], None]) -> Progress:
    """Encode files to files, or go on where an earlier call was stopped.

    Memory holds the model, and one shard of texts and vectors for each worker. On the same machine
    vectors are the same bits whatever the number of workers and threads, the size of the shards and
    the number of interruptions.

    Args:
        config: what and how. With several workers a script needs the usual
            `if __name__ == "__main__":`.
        report: called after each batch.

    Returns:
        The last that was reported.

    Raises:
        UserError: input, model or an earlier output is not what is expected.
    """
    _require_room(config)
    with open_records(config.inputs, config.column, config.id_column, config.encoding) as records:
        encoder = load_encoder(config.model)
        scanned = records.scan()
        if not scanned.rows:
            raise UserError(f"{', '.join(config.inputs)}: no text to encode")
        layout = _layout(config, encoder)
        settings = {**layout.to_json(), **layout.about, "text": scanned.digest}
        with held(config.shard_folder):
            shards = Shards(
                config.shard_folder, settings, scanned.rows, config.shard_size, f".{config.kind}"
            )
            seen = RowsHash()
            jobs = _jobs(records, shards, seen)
            before = set(shards.done)
            progress = _encode_missing(config, encoder, layout, jobs, shards, report)
            if seen.digest != scanned.digest:
                shards.forget(set(shards.done) - before)
                raise UserError(
                    f"{', '.join(config.inputs)}: the text changed while it was encoded. Encode it "
                    f"again: remove {config.shard_folder}, or give another `output`"
                )
            if config.single:
                _join(config, layout, shards)
    return progress


def _layout(config: EncodeConfig, encoder: Encoder) -> Layout:
    about: dict[str, Any] = {
        "model": weights_hash(encoder),
        "precision": config.precision,
        "max_length": config.max_length,
    }
    key: Key = "text" if config.id_column is None else "id"
    return Layout(config.kind, config.dtype, encoder.dim, key, about)


def _require_room(config: EncodeConfig) -> None:
    if config.single:
        shutil.rmtree(_removed(config), ignore_errors=True)  # a kill in `_join` leaves it
        if config.output.exists() and not config.shard_folder.exists():
            raise UserError(f"{config.output}: exists already. Remove it, or give another `output`")
    require_shards(config.shard_folder)
    for name in config.inputs:  # an output among them would be read as text the next time
        if Path(name).is_dir() and Path(name).resolve() in config.output.resolve().parents:
            raise UserError(f"`output` {config.output}: lies in the folder to encode ({name})")


def _encode_missing(
    config: EncodeConfig,
    encoder: Encoder,
    layout: Layout,
    jobs: Iterator[Job],
    shards: Shards,
    report: Callable[[Progress], None],
) -> Progress:
    task = Task(config.model, layout, WINDOW, config.max_length, config.precision)
    progress = Progress(shards.rows, shards.rows_done, 0, 0.0)
    report(progress)
    first: tuple[float, int] | None = None  # when the first batch was done, and its rows

    def tick(rows: int) -> None:
        nonlocal progress, first
        done, now, speed = progress.done + rows, time.monotonic(), 0.0
        if first is None and rows:
            first = now, done
        elif first is not None and now > first[0]:
            speed = (done - first[1]) / (now - first[0])
        progress = Progress(shards.rows, progress.before, done, speed)
        report(progress)

    for index, digest in write_shards(task, encoder, jobs, config.workers, tick):
        shards.finish(index, digest)
    return progress


def _jobs(records: Records, shards: Shards, seen: RowsHash) -> Iterator[Job]:
    """The shards that are not there yet; `seen` sees every row of the text as it is now."""
    rows = iter(records)
    for index in range(len(shards)):
        part = list(islice(rows, shards.size(index)))
        for record in part:
            seen.add(record)
        if len(part) < shards.size(index):
            return  # the text is shorter than it was; `seen` tells
        if index not in shards.done:
            texts, keys = map(list, zip(*part, strict=True))
            if records.id_column is None:
                keys = texts
            yield Job(index, shards.path(index), texts, keys)


def _join(config: EncodeConfig, layout: Layout, shards: Shards) -> None:
    """Make the one file, and only then remove the shards."""
    parts = [shards.path(index) for index in range(len(shards))]
    layout.join(parts, shards.rows, config.output)
    if config.kind == "npy":  # Parquet has it inside
        about = json.dumps(shards.to_json(), indent=2) + "\n"
        write_text(config.output.with_name(f"{config.output.name}.json"), about)
    config.shard_folder.rename(_removed(config))  # first, so that a kill leaves no half of them
    shutil.rmtree(_removed(config), ignore_errors=True)


def _removed(config: EncodeConfig) -> Path:
    """What the shards are called when the one file is there."""
    return config.shard_folder.with_name(f".{config.shard_folder.name}.removed")
