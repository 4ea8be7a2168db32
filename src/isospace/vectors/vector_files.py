"""Vectors in files: Parquet with text or id beside them, or npy; four types of numbers.

float32  the encoder's vectors
float16  rounded to half precision
int8     v = round(x / scale) with scale = max |x| / 127 of the same vector; no other vector counts.
         scale * v is within scale / 2 of x in every dimension. Cosines need no scale. Parquet has
         it in the column `scale`
binary   bit i is 1 where x_i > 0, eight dimensions to a uint8, first dimension highest: what
         sentence-transformers calls ubinary
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isospace.errors import UserError
from isospace.system.arrays import row_writer
from isospace.system.files import atomic_path
from isospace.vectors.encode_config import Dtype, Format

Key = Literal["text", "id"]


def quantise(vectors: NDArray[np.float32], dtype: Dtype) -> tuple[np.ndarray, np.ndarray | None]:
    """Convert vectors to the stored type; int8 vectors have a scale each.

    Args:
        vectors: (n, dim) float32.
        dtype: what to make of them.

    Returns:
        (n, dim), or (n, ceil(dim / 8)) for binary; and (n,) float32 or `None`.

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
    """The format of the files of one output.

    The key is Parquet's first column; `about` is its metadata under the key `isospace`.
    """

    format: Format
    dtype: Dtype
    dim: int
    key: Key
    about: Mapping[str, Any]

    @property
    def width(self) -> int:
        """The count of numbers stored for a vector."""
        return -(-self.dim // 8) if self.dtype == "binary" else self.dim

    @property
    def _stored(self) -> np.dtype[Any]:
        """The type of these numbers."""
        return np.dtype("uint8" if self.dtype == "binary" else self.dtype)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the Parquet files."""
        vector = pa.list_(pa.from_numpy_dtype(self._stored), self.width)
        fields = [pa.field(self.key, pa.string()), pa.field("vector", vector)]
        if self.dtype == "int8":
            fields.append(pa.field("scale", pa.float32()))
        about = {**self.about, "dtype": self.dtype, "dim": self.dim}
        return pa.schema(fields, metadata={"isospace": json.dumps(about)})

    def write(self, path: Path, keys: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Write vectors (n, dim) and their n texts or ids, which npy has no place for, atomically.

        Raises:
            UserError: a vector that is no number, or too large for the type.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused below
            values, scales = quantise(vectors, self.dtype)
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
                contents = io.BytesIO()  # np.save on a full disk gives an error without a reason
                np.save(contents, values)
                file.write(contents.getbuffer())
                return
            flat = pa.array(values.reshape(-1))
            columns = [pa.array(keys), pa.FixedSizeListArray.from_arrays(flat, self.width)]
            if scales is not None:
                columns.append(pa.array(scales))
            with self._writer(file) as writer:
                writer.write_table(pa.Table.from_arrays(columns, schema=self.schema))

    def join(self, parts: Sequence[Path], rows: int, path: Path) -> None:
        """Make one file of several that `write` made, `rows` vectors together, atomically."""
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
        """Open a Parquet writer that compresses text, but no vectors."""
        return pq.ParquetWriter(
            target,
            self.schema,
            use_dictionary=False,
            compression={self.key: "zstd"},
            write_statistics=False,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the settings that decide the files, for the manifest."""
        settings = asdict(self)
        del settings["about"]
        return settings
