"""Files of vectors: Parquet with text or id, or npy; four types of numbers.

float32  the encoder's vectors
float16  rounded to half precision
int8     v = round(x / scale) with scale = max |x| / 127 of the same vector. scale * v is within
         scale / 2 of x in every dimension. Cosines need no scale. Parquet stores it in the column
         `scale`
binary   bit i is 1 if x_i > 0; eight dimensions in a uint8, the first dimension in the highest bit
         (ubinary in sentence-transformers)

A compression (`operators.compression`) stores its own numbers instead. If it searches by bits and
ranks by numbers, Parquet stores the bits in the column `bits`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isospace.errors import UserError
from isospace.operators.compression import Compression
from isospace.system.arrays import row_writer
from isospace.system.files import atomic_path
from isospace.vectors.encode_config import Dtype, Format

Key = Literal["text", "id"]


def quantise(vectors: NDArray[np.float32], dtype: Dtype) -> tuple[np.ndarray, np.ndarray | None]:
    """Convert vectors to the stored type; each int8 vector has a scale.

    Args:
        vectors: (n, dim) float32.
        dtype: stored type.

    Returns:
        Stored values (n, dim), or (n, ceil(dim / 8)) for binary; and scales (n,) float32 or `None`.

    Examples:
        >>> values, scales = quantise(np.array([[0.5, -1.0, 0.25]], np.float32), "int8")
        >>> values.tolist(), [f"{scale:.4f}" for scale in scales]
        ([[64, -127, 32]], ['0.0079'])
        >>> quantise(np.array([[0.5, -1.0, 0.25]], np.float32), "binary")[0].tolist()
        [[160]]
    """
    if dtype == "binary":
        return np.packbits(vectors > 0, axis=1), None
    if dtype == "int8":
        scales = np.abs(vectors).max(axis=1) / np.float32(127)
        divisors = np.where(scales > 0, scales, np.float32(1))
        return np.rint(vectors / divisors[:, None]).astype(np.int8), scales
    return vectors.astype(dtype), None


@dataclass(frozen=True)
class FileLayout:
    """Format of the files of one output.

    `key` names the first column in Parquet. `about` is metadata, stored under the key `isospace`.
    """

    format: Format
    dtype: Dtype
    dim: int
    key: Key
    about: Mapping[str, Any]
    compression: Compression | None = None
    queries: bool = False
    """True if the texts are queries, whose vectors most compressions keep as floats."""

    @property
    def width(self) -> int:
        """Number of stored values for a vector."""
        dim = self.dim if self.compression is None else self.compression.dim
        return -(-dim // 8) if self._dtype == "binary" else dim

    @property
    def _dtype(self) -> Dtype:
        """Type of the stored values; binary for bits."""
        if self.compression is None:
            return self.dtype
        form = self.compression.form
        bits_alone = form.bits and not form.rescored
        return "float32" if self.queries and not bits_alone else form.numbers

    @property
    def _has_bits(self) -> bool:
        """True if a column of bits is stored too."""
        return self.compression is not None and self.compression.form.rescored

    @property
    def _stored(self) -> np.dtype[Any]:
        """Numpy type of the stored values."""
        return np.dtype("uint8" if self._dtype == "binary" else self._dtype)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the Parquet files."""
        vector = pa.list_(pa.from_numpy_dtype(self._stored), self.width)
        fields = [pa.field(self.key, pa.string()), pa.field("vector", vector)]
        about = {**self.about, "dtype": self._dtype, "dim": self.dim}
        if self.compression is not None:
            about["compress"] = self.compression.name
        elif self.dtype == "int8":
            fields.append(pa.field("scale", pa.float32()))
        if self._has_bits:
            fields.append(pa.field("bits", _bits_of(self.width)))
        return pa.schema(fields, metadata={"isospace": json.dumps(about)})

    def write(self, path: Path, keys: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Write vectors (n, dim) and their n texts or ids atomically; npy has vectors only.

        Raises:
            UserError: a vector is not finite, or too large for the type.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            values, scales = self._stored_numbers(vectors)
        for array in (vectors, values):
            if not np.isfinite(array).all():
                row = int(np.argmin(np.isfinite(array).all(axis=1)))
                raise UserError(
                    f"{path.name}, row {row}: the vector is not finite as {array.dtype}. Try "
                    "`precision` float32 and `dtype` float32. If that fails too, the model is "
                    "damaged"
                )
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            if self.format == "npy":
                contents = io.BytesIO()  # np.save to a full disk gives no reason
                np.save(contents, values)
                file.write(contents.getbuffer())
                return
            flat = pa.array(values.reshape(-1))
            columns = [pa.array(keys), pa.FixedSizeListArray.from_arrays(flat, self.width)]
            if scales is not None:
                columns.append(pa.array(scales))
            if self._has_bits and self.compression is not None:
                bits = pa.array(self.compression.bits(vectors).reshape(-1))
                columns.append(pa.FixedSizeListArray.from_arrays(bits, -(-self.width // 8)))
            with self._writer(file) as writer:
                writer.write_table(pa.Table.from_arrays(columns, schema=self.schema))

    def _stored_numbers(self, vectors: NDArray[np.float32]) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the stored numbers, and the scales of int8 without a compression."""
        if self.compression is None:
            return quantise(vectors, self.dtype)
        if self.queries and self._dtype == "float32":
            return self.compression.queries(vectors), None
        return self.compression.numbers(vectors), None

    def join(self, parts: Sequence[Path], rows: int, path: Path) -> None:
        """Join files that `write` made into one file of `rows` vectors, atomically."""
        with atomic_path(path) as temporary:
            if self.format == "npy":
                with row_writer(temporary, self._stored, (rows, self.width)) as write:
                    for part in parts:
                        write(np.load(part))
                return
            with self._writer(temporary) as writer:
                for part in parts:
                    writer.write_table(pq.read_table(part, partitioning=None))

    def _writer(self, target: Any) -> pq.ParquetWriter:
        """Open a Parquet writer that compresses texts, but not vectors."""
        return pq.ParquetWriter(
            target,
            self.schema,
            use_dictionary=False,
            compression={self.key: "zstd"},
            write_statistics=False,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the settings that decide the content of the files, for the manifest."""
        settings: dict[str, Any] = {
            "format": self.format,
            "dtype": self._dtype,
            "dim": self.dim,
            "key": self.key,
        }
        if self.compression is not None:
            settings["compress"] = self.compression.name
        return settings


def _bits_of(dim: int) -> pa.DataType:
    return pa.list_(pa.uint8(), -(-dim // 8))
