"""npz files that are read whole: arrays by name, never objects, of a size that is bounded."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from isospace.errors import UserError, first_line
from isospace.system.files import atomic_path

LARGEST = 1 << 31
"""Bytes of all arrays of a file together. Those of a run come to a few megabytes."""


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write an npz file, whole or not at all."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file.

    Raises:
        UserError: it is damaged, holds something else than plain arrays, or more than `LARGEST`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > LARGEST:
            raise ValueError(f"{size / 1e9:.1f} GB unpacked, at most {LARGEST / 1e9:.1f} are read")
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    # zip, zlib and numpy each have errors of their own; a length that is no length is asked for.
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"{path}: cannot be read ({reason}). The file is damaged") from error
    for name, array in found.items():
        if not isinstance(array, np.ndarray):  # what does not begin as an array comes as bytes
            raise UserError(f"{path}: {name} is no array. The file is damaged")
    return found
