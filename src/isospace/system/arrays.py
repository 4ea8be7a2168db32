"""Arrays in files: npz files that are read whole, npy files that are written some rows at a time.

Arrays in npz files have names, and never hold objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from isospace.errors import UserError, first_line
from isospace.system.files import atomic_path


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write an npz file atomically."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


@contextmanager
def row_writer(
    path: Path, dtype: npt.DTypeLike, shape: tuple[int, int]
) -> Iterator[Callable[[np.ndarray], object]]:
    """Give a function that writes an npy file, some rows per call.

    The file is not memory-mapped: on a full disk, a mapped page would kill the process.
    """
    kind: np.dtype[Any] = np.dtype(dtype)
    header = {
        "descr": np.lib.format.dtype_to_descr(kind),
        "fortran_order": False,
        "shape": shape,
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        yield lambda rows: file.write(rows.astype(kind).tobytes())


def read_arrays(path: Path, prefix: str = "") -> dict[str, np.ndarray]:
    """Read the arrays of an npz file whose names begin with a prefix."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if name.startswith(prefix)}
    # zip, zlib and numpy raise many kinds of errors; a damaged length can even exhaust memory.
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"{path}: cannot be read ({reason}). The file is damaged") from error
