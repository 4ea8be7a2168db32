"""The user's cache: folders that are built once, and appear complete."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from isospace.errors import UserError
from isospace.system.files import expanded

_STALE_SECONDS = 7 * 24 * 3600
_DAMAGED = (FileNotFoundError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
"""What reading raises where a file is missing, or its end or middle is not what was written.

Other errors of the system pass, such as too many open files; they say nothing of what is there.
"""

_NO_CACHE = (
    "the cache folder cannot be used ({}). Set the environment variable ISOSPACE_CACHE to a folder "
    "that can be written"
)
Value = TypeVar("Value")


def cache_folder() -> Path:
    """Return the folder of what is made once: ISOSPACE_CACHE, or the user's cache folder."""
    chosen = os.environ.get("ISOSPACE_CACHE")
    if chosen:
        return expanded(chosen)
    caches = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(caches) if caches else Path.home() / ".cache") / "isospace"
    except RuntimeError as error:  # a user whom the system does not know
        raise UserError(_NO_CACHE.format("you have no home folder")) from error


def make_in_cache(folder: Path) -> None:
    """Make a folder of the cache.

    Raises:
        UserError: it cannot be made, or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(_NO_CACHE.format(f"{folder}: {error.strerror}")) from error


def built_once(folder: Path, build: Callable[[Path], None], read: Callable[[Path], Value]) -> Value:
    """Read a folder, which is built first where it is missing or damaged.

    `build` fills a new folder that then takes the name, so that it appears at once and complete.
    Of several processes that build the same, one wins, and all use its result. What a killed
    process left behind goes when it is a week old.
    """
    if folder.exists():
        try:
            return read(folder)
        except _DAMAGED:
            shutil.rmtree(folder, ignore_errors=True)
    make_in_cache(folder.parent)
    remove_stale(folder.parent, ".building-*")
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as scratch:
        new = Path(scratch, "new")
        new.mkdir()
        build(new)
        for file in new.iterdir():
            with file.open("rb+") as handle:
                os.fsync(handle.fileno())
        try:
            new.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return read(folder)


def remove_stale(folder: Path, pattern: str) -> None:
    """Remove what killed processes left in a folder: folders of these names that are a week old."""
    for stale in folder.glob(pattern):
        with suppress(FileNotFoundError):
            if time.time() - stale.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(stale, ignore_errors=True)
