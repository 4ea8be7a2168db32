"""Checks that a written model gives the measured vectors, and that its files are unchanged.

Every model folder has a file SHA256SUMS, because neither safetensors nor tokenizer files detect a
bit changed on disk. `sha256sum --check SHA256SUMS` reads it too. It leaves out the settings and the
model card, which people edit.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from isospace.errors import UserError
from isospace.system.files import file_hash

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
"""Largest 1 - cosine allowed between measured vectors and vectors of an export, float32."""

PROBES = (
    "A short sentence.",
    "Größe, 大きさ, حجم 😀",
    "one two three four " * 12,
    "longer than any encoder of sentences reads " * 120,
    "x",
    "",
)
"""Texts for the comparison: several scripts and lengths, a truncated text, and an empty one."""


def cosines(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return (n,) float64 cosines between corresponding rows of two arrays (n, dim)."""
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products: np.ndarray = (a * b).sum(1) / np.maximum(norms, 1e-12)
    return products


def gap_between(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the largest 1 - cosine between two models' vectors (n, dim) of the same texts.

    The gap is infinite if the widths differ.
    """
    if ours.shape != theirs.shape:
        return math.inf
    # A text without known words has the zero word vector, which has no cosine.
    gaps = np.where((ours == theirs).all(1), 0.0, 1.0 - cosines(ours, theirs))
    return float(np.maximum(np.max(gaps), 0.0))


def require_parity(ours: np.ndarray, theirs: np.ndarray, source: str, tolerance: float) -> float:
    """Return the result of `gap_between`; refuse a gap above the tolerance."""
    gap = gap_between(ours, theirs)
    if not gap <= tolerance:
        raise UserError(
            f"{source}: the written folder gives other vectors than the encoder (1 - cosine "
            f"{gap:.2g}, at most {tolerance:g} is allowed). Some part of the model cannot be "
            "saved; nothing was written"
        )
    return gap


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS for all files of a new model, except files that people edit."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    lines = [
        f"{file_hash(path)}  {path.relative_to(folder).as_posix()}\n"
        for path in files
        if path.name not in _EDITED
    ]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def damage(folder: Path) -> str | None:
    """Return a message about the first changed file; `None` if there is none, or no SHA256SUMS.

    Missing files are ignored: they may belong to a format that is not loaded, and loading the model
    reports the others.
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
            if path.is_file() and file_hash(path) != found[1]:
                return f"{path}: damaged: its checksum is not the one in {SUMS}"
        except OSError as error:
            return f"{path}: cannot be read ({error.strerror})"
    return None
