"""Files of vectors, Parquet with text or id, or npy, and folders of shards, which can resume.

A shard is written atomically. A shard that a kill kept from being written is made by the next call.
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
from numpy.typing import NDArray

from isospace.config import VectorFormat
from isospace.errors import UserError
from isospace.operators.compression import compressed
from isospace.operators.forms import Numbers
from isospace.system import typed_json
from isospace.system.files import atomic_path, row_writer


@dataclass(frozen=True)
class FileLayout:
    """Format of the files of one output.

    `key` names the first column in Parquet. `about` is metadata, stored under the key `isospace`.
    """

    format: VectorFormat
    dim: int
    key: Literal["text", "id"]
    about: Mapping[str, Any]
    numbers: Numbers = "float32"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that decide the content of the files, for the files and the manifest."""
        return {**self.about, "dtype": self.numbers, "dim": self.dim, "key": self.key}

    @property
    def schema(self) -> pa.Schema:
        """Schema of the Parquet files."""
        fields = [pa.field(self.key, pa.string()), vector_field("vector", self.numbers, self.dim)]
        return pa.schema(fields, metadata={"isospace": json.dumps(self.settings)})

    def write(self, path: Path, keys: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Write vectors (n, dim) and their texts or ids atomically; refuse vectors with NaN."""
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            raise UserError(
                f"{path.name}, row {np.argmin(finite)}: the vector is not finite. Try `precision` "
                "float32. If that fails too, the model is damaged"
            )
        values: NDArray[Any] = vectors
        if self.numbers != "float32":
            values = compressed(vectors, self.numbers)
        with atomic_path(path) as temporary:
            if self.format == "npy":
                with row_writer(temporary, values.dtype, values.shape) as write:
                    write(values)
                return
            columns = [pa.array(keys), as_lists(values)]
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
    """Content of the manifest: the settings that work in the folder must have."""

    isospace: str
    settings: dict[str, Any]
    format: int = 4


class Shards:
    """The shards of one output, of `size` rows each except the last; use them within `working_in`.

    A folder that was begun with other settings is refused. A shard is finished if its file exists,
    because files are written atomically. `missing` are the numbers of the others.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], rows: int, size: int, suffix: str
    ) -> None:
        self.folder, self.rows, self._size, self._suffix = folder, rows, size, suffix
        self._settings = {**settings, "rows": rows}
        if (folder / MANIFEST).is_file():
            self._require_same(self._read())
        else:
            self.write_manifest(folder / MANIFEST)
        self.missing = [index for index in range(len(self)) if not self.path(index).is_file()]

    def __len__(self) -> int:
        return -(-self.rows // self._size)

    def size(self, index: int) -> int:
        """Return the number of rows of a shard."""
        return min(self._size, self.rows - index * self._size)

    def path(self, index: int) -> Path:
        """Return the path of a shard."""
        return self.folder / f"part-{index:05d}{self._suffix}"

    def write_manifest(self, path: Path) -> None:
        """Write the settings to a JSON file."""
        typed_json.write(path, Manifest(version("isospace"), self._settings))

    def _read(self) -> Mapping[str, Any]:
        try:
            path = self.folder / MANIFEST
            return typed_json.read(path, Manifest, "entries of a manifest").settings
        except UserError as error:
            raise UserError(f"{error}. Remove {self.folder}, or give another `output`") from error

    def _require_same(self, settings: Mapping[str, Any]) -> None:
        for name, value in self._settings.items():
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
