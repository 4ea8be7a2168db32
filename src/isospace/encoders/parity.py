"""Checks that a written model is the model that was measured, and that no byte of it has changed.

Every model folder has a file SHA256SUMS, because neither safetensors nor the files of a tokenizer
show that a disk has changed a bit. `sha256sum --check SHA256SUMS` reads it too. It leaves out
settings and card, which people edit.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import numpy as np

from isospace.errors import UserError
from isospace.system.files import file_sha256

SUMS = "SHA256SUMS"
_EDITED = (
    "README.md",
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer_config.json",
)
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")

TOLERANCE = 1e-5
"""Largest 1 - cosine between the vectors that were measured and those of an export, float32."""

PROBES = (
    "A short sentence.",
    "Größe, 大きさ, حجم 😀",
    "one two three four " * 12,
    "longer than any encoder of sentences reads " * 120,
    "x",
    "",
)
"""What is compared: several scripts and lengths, a text that is cut, and an empty one."""


def cosines(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return (n,) cosines between equal rows of two arrays (n, dim), in float64."""
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products: np.ndarray = (a * b).sum(1) / np.maximum(norms, 1e-12)
    return products


def gap_between(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the largest 1 - cosine between two models' vectors (n, dim) of the same texts.

    Infinite where they have other widths.
    """
    if ours.shape != theirs.shape:
        return math.inf
    # Word vectors give texts without a known word zero, which has no cosine.
    gaps = np.where((ours == theirs).all(1), 0.0, 1.0 - cosines(ours, theirs))
    return float(np.maximum(np.max(gaps), 0.0))


def require_parity(ours: np.ndarray, theirs: np.ndarray, source: str, tolerance: float) -> float:
    """Return what `gap_between` finds; refuse a large gap.

    Raises:
        UserError: a larger difference, or vectors of another width.
    """
    gap = gap_between(ours, theirs)
    if not gap <= tolerance:
        raise UserError(
            f"{source}: the written folder gives other vectors than the encoder (1 - cosine "
            f"{gap:.2g}, at most {tolerance:g} is allowed). Some part of the model cannot be "
            "saved; nothing was written"
        )
    return gap


def require_whole(folder: Path, source: str) -> None:
    """Refuse a written folder that needs the weights of another model.

    Raises:
        UserError: it holds an adapter.
    """
    if any(folder.rglob("adapter_config.json")):
        raise UserError(
            f"{source}: the written folder holds an adapter without its base model. Nothing was "
            "written; merge the adapter first"
        )


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS of all files of a new model but those that people edit."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    lines = [
        f"{file_sha256(path)}  {path.relative_to(folder).as_posix()}\n"
        for path in files
        if path.name not in _EDITED
    ]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def damage(folder: Path) -> str | None:
    """Find a file that is not as it was written; `None` if all are, or there are no sums.

    A file that is not there is left to what loads the model: it may be one of another format.
    """
    sums = folder / SUMS
    if not sums.is_file():
        return None
    lines = sums.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, start=1):
        found = _LINE.fullmatch(line)
        if found is None or ".." in (parts := Path(found[2]).parts) or Path(found[2]).is_absolute():
            return f"{sums}, line {number}: not a SHA-256 and a file of the folder"
        path = folder.joinpath(*parts)
        try:
            if os.path.isfile(path) and file_sha256(path) != found[1]:
                return f"{path}: damaged: not what was written (its sum is not that in {SUMS})"
        except OSError as error:
            return f"{path}: cannot be read ({error.strerror})"
    return None
