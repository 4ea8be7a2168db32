"""Files of vectors: Parquet with text or id, or npy.

The numbers are the encoder's, in float32, or those of a compression (`operators.compression`). If
the compression searches by bits and ranks by numbers, Parquet stores the bits in the column `bits`.

Folder of shards with a manifest of the finished shards, so that encoding can resume.

A shard is written atomically, and then entered in the manifest with a hash. A shard without an
entry, left by a kill, is made again.

File of a fitted compression, next to its vectors, so that queries are compressed alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from isospace.config import VectorFormat
from isospace.corpus.examples import evenly
from isospace.encoders.encoder import Encoder
from isospace.encoders.settings import Side
from isospace.errors import UserError
from isospace.operators.compression import Compression
from isospace.operators.fitted_whitening import WhiteningMap
from isospace.operators.forms import FITTED_ON, FORMS, FormName, Numbers, require_fit
from isospace.system import typed_json
from isospace.system.files import (
    atomic_path,
    expanded,
    file_hash,
    read_arrays,
    row_writer,
    write_arrays,
)
from isospace.system.progress import Progress


@dataclass(frozen=True)
class FileLayout:
    """Format of the files of one output.

    `key` names the first column in Parquet. `about` is metadata, stored under the key `isospace`.
    """

    format: VectorFormat
    dim: int
    key: Literal["text", "id"]
    about: Mapping[str, Any]
    compression: Compression | None = None
    queries: bool = False
    """True if the texts are queries, whose vectors most compressions keep as floats."""

    @property
    def numbers(self) -> Numbers:
        """Type of the stored numbers; binary for bits."""
        if self.compression is None:
            return "float32"
        form = self.compression.form
        bits_alone = form.bits and not form.rescored
        return "float32" if self.queries and not bits_alone else form.numbers

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that decide the content of the files, for the files and the manifest."""
        # A message names the first that changed: `compress`, which decides the type.
        compress = {} if self.compression is None else {"compress": self.compression.name}
        kind = {"format": self.format, "dtype": self.numbers, "dim": self.dim, "key": self.key}
        return {**self.about, **compress, **kind}

    @property
    def schema(self) -> pa.Schema:
        """Schema of the Parquet files."""
        dim = self.dim if self.compression is None else self.compression.dim
        fields = [pa.field(self.key, pa.string()), vector_field("vector", self.numbers, dim)]
        if self.compression is not None and self.compression.form.rescored:
            fields.append(vector_field("bits", "binary", dim))
        return pa.schema(fields, metadata={"isospace": json.dumps(self.settings)})

    def write(self, path: Path, keys: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Write vectors (n, dim) and their n texts or ids atomically; npy has vectors only.

        Raises:
            UserError: a vector is not finite.
        """
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            raise UserError(
                f"{path.name}, row {np.argmin(finite)}: the vector is not finite. Try `precision` "
                "float32. If that fails too, the model is damaged"
            )
        values: NDArray[Any] = vectors
        if self.compression is not None:
            as_floats = self.queries and self.numbers == "float32"
            stored = self.compression.queries if as_floats else self.compression.numbers
            values = stored(vectors)
        with atomic_path(path) as temporary:
            if self.format == "npy":
                with row_writer(temporary, values.dtype, values.shape) as write:
                    write(values)
                return
            columns = [pa.array(keys), as_lists(values)]
            if self.compression is not None and self.compression.form.rescored:
                columns.append(as_lists(self.compression.bits(vectors)))
            with self._writer(temporary) as writer:
                writer.write_table(pa.Table.from_arrays(columns, schema=self.schema))

    def join(self, parts: Sequence[Path], rows: int, path: Path) -> None:
        """Join files that `write` made into one file of `rows` vectors, atomically."""
        with atomic_path(path) as temporary:
            if self.format == "npy":
                first = np.load(parts[0], mmap_mode="r")
                with row_writer(temporary, first.dtype, (rows, first.shape[1])) as write:
                    for part in parts:
                        write(np.load(part))
                return
            with self._writer(temporary) as writer:
                for part in parts:
                    writer.write_table(pq.read_table(part.absolute(), partitioning=None))

    def _writer(self, path: Path) -> pq.ParquetWriter:
        """Open a Parquet writer that compresses texts, but not vectors."""
        return pq.ParquetWriter(
            path.absolute(),  # pyarrow would read v-12:30.parquet as a URL
            self.schema,
            use_dictionary=False,
            compression={self.key: "zstd"},
            write_statistics=False,
        )


def vector_field(name: str, numbers: Numbers, dim: int) -> pa.Field:
    """Return the Arrow field of stored vectors with `dim` numbers each."""
    if numbers == "binary":
        return pa.field(name, pa.list_(pa.uint8(), -(-dim // 8)))
    return pa.field(name, pa.list_(pa.from_numpy_dtype(np.dtype(numbers)), dim))


def as_lists(numbers: NDArray[Any]) -> pa.FixedSizeListArray:
    """Return numbers (n, width) as an Arrow column of n lists."""
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), numbers.shape[1])


MANIFEST = "manifest.json"

_WORDS = {
    "model": "model",
    "dtype": "`compress`",
    "text": "text to encode",
    "key": "`id_column`",
}
"""Setting -> its name in messages, if that is not the name of the field."""


@dataclass(frozen=True)
class Manifest:
    """Content of the manifest: the settings, and file -> hash of its bytes of finished shards."""

    isospace: str
    complete: bool
    settings: dict[str, Any]
    shards: dict[str, str]
    format: int = 2


class Shards:
    """The shards of one output; use them within `working_in`.

    A folder can resume with the same `settings` only. The last shard may have fewer than
    `shard_size` rows.

    Raises:
        UserError: the folder was begun with other settings, or is damaged.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], rows: int, shard_size: int, suffix: str
    ) -> None:
        self.folder, self.rows, self.shard_size, self._suffix = folder, rows, shard_size, suffix
        self._settings = {**settings, "shard_size": shard_size, "rows": rows}
        self.done: dict[int, str] = {}  # number of a finished shard -> hash
        if (folder / MANIFEST).is_file():
            self._read()
        else:
            self.write_manifest(folder / MANIFEST)

    def __len__(self) -> int:
        return -(-self.rows // self.shard_size)

    def size(self, index: int) -> int:
        """Return the number of rows of a shard."""
        return min(self.shard_size, self.rows - index * self.shard_size)

    def path(self, index: int) -> Path:
        """Return the path of a shard."""
        return self.folder / f"part-{index:05d}{self._suffix}"

    @property
    def rows_done(self) -> int:
        """Number of rows in the finished shards."""
        return sum(map(self.size, self.done))

    def finish(self, index: int, digest: str) -> None:
        """Enter a written shard in the manifest."""
        self.done[index] = digest
        self.write_manifest(self.folder / MANIFEST)

    def write_manifest(self, path: Path) -> None:
        """Write settings and finished shards to a JSON file."""
        shards = {self.path(index).name: self.done[index] for index in sorted(self.done)}
        complete = len(shards) == len(self)
        typed_json.write(path, Manifest(version("isospace"), complete, self._settings, shards))

    def _read(self) -> None:
        try:
            manifest = typed_json.read(self.folder / MANIFEST, Manifest, "entries of a manifest")
        except UserError as error:
            raise UserError(f"{error}. Remove {self.folder}, or give another `output`") from error
        self._require_same(manifest.settings)
        for index, shard in enumerate(map(self.path, range(len(self)))):
            if shard.name not in manifest.shards or not shard.is_file():
                continue  # the shard is made, or made again
            self.done[index] = file_hash(shard)
            if self.done[index] != manifest.shards[shard.name]:
                raise UserError(
                    f"{shard} is damaged: these are not the bytes that were written. Delete this "
                    "file and run the same command again"
                )

    def _require_same(self, settings: Mapping[str, Any]) -> None:
        for name in [*self._settings, *settings]:  # only some outputs have `compress`
            value = self._settings.get(name)
            if settings.get(name) != value:
                what = _WORDS.get(name, f"`{name}`")
                raise UserError(
                    f"{self.folder}: was begun with another {what} ({settings.get(name)}, now "
                    f"{value}). Give the old value, or another `output`"
                )


def require_shards(folder: Path) -> None:
    """Refuse a path that is a file, or a folder with content but without a manifest."""
    if (folder / MANIFEST).is_file() or not folder.exists():
        return
    ours = (".lock", f".{MANIFEST}.")  # files left by a kill before the first manifest
    if not folder.is_dir() or any(not path.name.startswith(ours) for path in folder.iterdir()):
        raise UserError(f"{folder}: exists already and has no {MANIFEST}. Give another `output`")


FILE = "compression.npz"


def fit_compression(
    form: FormName,
    encoder: Encoder,
    texts: Sequence[str],
    progress: Progress,
    side: Side | None = "document",
) -> Compression:
    """Fit a form on at most `FITTED_ON` evenly spaced texts of a side."""
    some: list[str] = []
    if FORMS[form].fewest:
        some = [texts[place] for place in evenly(len(texts), FITTED_ON)]
    try:
        require_fit(form, encoder.dim, len(some))  # before texts are encoded
    except ValueError as error:
        raise UserError(f"`compress` {error}") from error
    vectors = np.empty((0, encoder.dim), np.float32)
    if some:
        with progress.bar("fit", len(some)) as advance:
            vectors = encoder.embed(some, on_batch=advance, side=side)
    return Compression.fit(form, vectors)


def write_compression(path: Path, compression: Compression) -> None:
    """Write a compression atomically."""
    arrays = {"form": np.array(compression.name), "width": np.array(compression.width)}
    if compression.components is not None:
        components = compression.components
        arrays |= {"mean": components.mean.numpy(), "components": components.kernel.numpy()}
    if compression.ranges is not None:
        arrays["ranges"] = compression.ranges
    write_arrays(path, **arrays)


def read_compression(path: Path) -> Compression:
    """Read a compression that `write_compression` wrote."""
    arrays = read_arrays(path)
    try:
        name, width = str(arrays["form"]), int(arrays["width"])
        [form] = [known for known in FORMS if known == name]
        components = None
        if FORMS[form].dim is not None:
            mean, kernel = (torch.from_numpy(arrays[key]) for key in ("mean", "components"))
            components = WhiteningMap(mean, kernel)
        return Compression(form, width, components, arrays.get("ranges"))
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path}: not a compression. The file is damaged") from error


def find_compression(path: Path | str) -> Path:
    """Return the compression file of vectors that `encode` wrote.

    `path` is the folder or file of the vectors, or the compression file.
    """
    place = expanded(path)
    for found in (place / FILE, compression_file(place), place):
        if found.is_file() and found.suffix == ".npz":
            return found
    raise UserError(
        f"`compress` {path}: neither a form ({', '.join(FORMS)}) nor compressed vectors that "
        "encode wrote"
    )


def compression_file(output: Path) -> Path:
    """Return the path of the compression of a single file of vectors."""
    return output.with_name(f"{output.name}.{FILE}")
