"""The user's cache: folders that are built once, and appear only when complete."""

from __future__ import annotations

import functools
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
from isospace.system.files import expanded, file_hash

_PACKAGE = Path(__file__).parents[1]
_STALE_SECONDS = 7 * 24 * 3600
_DAMAGED = (FileNotFoundError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
"""Errors of reading a file that is missing or damaged.

Other system errors, such as too many open files, do not mean that the file is damaged.
"""

_NO_CACHE = (
    "the cache folder cannot be used ({}). Set the environment variable ISOSPACE_CACHE to a folder "
    "that can be written"
)
Value = TypeVar("Value")


def cache_folder() -> Path:
    """Return the cache folder: ISOSPACE_CACHE, or `isospace` in the user's cache folder."""
    chosen = os.environ.get("ISOSPACE_CACHE")
    if chosen:
        return expanded(chosen)
    caches = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(caches) if caches else Path.home() / ".cache") / "isospace"
    except RuntimeError as error:  # the system does not know the user
        raise UserError(_NO_CACHE.format("you have no home folder")) from error


def make_in_cache(folder: Path) -> None:
    """Make a folder of the cache; refuse one that cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(_NO_CACHE.format(f"{folder}: {error.strerror}")) from error


@functools.cache
def code_hashes(*packages: str) -> tuple[str, ...]:
    """Return hashes of the code of packages of isospace.

    In the key of a cache they keep the results of two versions of the code apart.
    """
    files = (file for name in packages for file in (_PACKAGE / name).rglob("*.py"))
    return tuple(map(file_hash, sorted([*files, _PACKAGE / "errors.py"])))


def built_once(folder: Path, build: Callable[[Path], None], read: Callable[[Path], Value]) -> Value:
    """Read a folder of the cache, and build it first if it is missing or damaged.

    `build` fills a new folder, which is then renamed, so that it appears only when complete. If
    several processes build the same folder, one wins, and all use its result. Half-built folders of
    killed processes are removed after a week.
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
    """Remove week-old folders that killed processes left in a folder; `pattern` is of names."""
    for stale in folder.glob(pattern):
        with suppress(FileNotFoundError):
            if time.time() - stale.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(stale, ignore_errors=True)
