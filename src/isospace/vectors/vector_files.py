"""Files of vectors: Parquet with text or id, or npy.

The numbers are the encoder's, in float32, or those of a compression (`operators.compression`). If
the compression searches by bits and ranks by numbers, Parquet stores the bits in the column `bits`.
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
from isospace.operators.forms import Numbers
from isospace.system.arrays import row_writer
from isospace.system.files import atomic_path
from isospace.vectors.encode_config import Format


@dataclass(frozen=True)
class FileLayout:
    """Format of the files of one output.

    `key` names the first column in Parquet. `about` is metadata, stored under the key `isospace`.
    """

    format: Format
    dim: int
    key: Literal["text", "id"]
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
    def _dtype(self) -> Numbers:
        """Type of the stored values; binary for bits."""
        if self.compression is None:
            return "float32"
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
        if self._has_bits:
            fields.append(pa.field("bits", pa.list_(pa.uint8(), -(-self.width // 8))))
        return pa.schema(fields, metadata={"isospace": json.dumps(about)})

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
        values = self._stored_numbers(vectors)
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            if self.format == "npy":
                contents = io.BytesIO()  # np.save to a full disk gives no reason
                np.save(contents, values)
                file.write(contents.getbuffer())
                return
            columns = [pa.array(keys), as_lists(values)]
            if self._has_bits and self.compression is not None:
                columns.append(as_lists(self.compression.bits(vectors)))
            with self._writer(file) as writer:
                writer.write_table(pa.Table.from_arrays(columns, schema=self.schema))

    def _stored_numbers(self, vectors: NDArray[np.float32]) -> NDArray[Any]:
        if self.compression is None:
            return vectors
        if self.queries and self._dtype == "float32":
            return self.compression.queries(vectors)
        return self.compression.numbers(vectors)

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
        # A message names the first that changed: `compress`, which decides the type.
        compress = {} if self.compression is None else {"compress": self.compression.name}
        return compress | {
            "format": self.format,
            "dtype": self._dtype,
            "dim": self.dim,
            "key": self.key,
        }


def as_lists(numbers: NDArray[Any]) -> pa.FixedSizeListArray:
    """Return numbers (n, width) as an Arrow column of n lists."""
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), numbers.shape[1])
