"""SentEval's folders, and their text files as lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from isospace.corpus import records
from isospace.errors import UserError


def read_lines(path: Path, expected: str) -> list[str]:
    r"""Lines of a UTF-8 file, cut at `\n` only, so that line numbers are those of an editor.

    Args:
        path: the file; a byte-order mark is dropped.
        expected: what should be there, for the message.

    Raises:
        UserError: where the file is missing or not UTF-8.
    """
    try:
        return records.read_lines(records.Source(path, str(path), "txt"))
    except UserError as error:
        raise UserError(f"{error} Expected {expected}") from error


def sentevals_root(folder: Path, names: Sequence[str]) -> Path | None:
    """Which of a folder, its `downstream` and its parent holds one of these folders of SentEval."""
    candidates = (folder / "downstream", folder, folder.parent)
    return next((c for c in candidates if any((c / name).is_dir() for name in names)), None)
