"""Writing so that a kill at any moment leaves the old file or the new one, never half of one."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b, sha256
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
from safetensors import SafetensorError

from isospace.errors import UserError
from isospace.system.settings import with_home


def sync_tree(folder: Path) -> None:
    """Make every file below a folder, and the folder, last through a power cut."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb+") as handle:
                os.fsync(handle.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder last through a power cut, where the system can do that."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name once the block ends well.

    Raises:
        OSError: it cannot be written, by safetensors too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.chmod(_usual_mode())
        temporary.replace(path)
        sync_folder(path.parent)
    except SafetensorError as error:
        raise OSError(str(error)) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path, replace: bool = False) -> Iterator[Path]:
    """A temporary folder beside `folder` that takes its place, whole, once the block ends well.

    With `replace` what is there gives way; else only an empty folder does.

    Raises:
        UserError: something is there by the end of the block, and is left as it is.
        OSError: it cannot be written, by safetensors too.
    """
    building = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    for torn in [*_of_the_killed(folder), building]:
        shutil.rmtree(torn, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        yield building
        sync_tree(building)
        mode = _usual_mode()
        for path in building.rglob("*"):
            if path.is_file():
                path.chmod(mode)
        _take_place(building, folder, replace)
        sync_folder(folder.parent)
    except SafetensorError as error:
        raise OSError(str(error)) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _usual_mode() -> int:
    """Return the mode of a new file, as safetensors lets nobody else read what it writes."""
    umask = os.umask(0)  # the system tells it only to those who set it
    os.umask(umask)
    return 0o666 & ~umask


def _of_the_killed(folder: Path) -> Iterator[Path]:
    """Find the half-built copies of a folder that ended processes have left."""
    for torn in folder.parent.glob(f".{glob.escape(folder.name)}.*.tmp"):
        number = torn.suffixes[-2][1:]
        own = torn.name == f".{folder.name}.{number}.tmp"  # and not of model.v2
        # Of one on another machine too: of two that make one folder, one would be refused anyway.
        if own and number.isdecimal() and not psutil.pid_exists(int(number)):
            yield torn


def _take_place(building: Path, folder: Path, replace: bool) -> None:
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if replace and folder.exists():
        shutil.rmtree(old, ignore_errors=True)  # of a killed process with our number
        folder.replace(old)
    elif is_occupied(folder):
        raise UserError(
            f"{folder}: another process has filled this folder meanwhile. Nothing was written. "
            "Give another `output`"
        )
    elif folder.exists():
        folder.rmdir()  # not every system renames onto an empty folder
    building.replace(folder)
    shutil.rmtree(old, ignore_errors=True)


def remove_torn(folder: Path) -> None:
    """Remove what killed processes left half written in a folder that this one alone writes."""
    for torn in chain(folder.glob(".*.tmp"), folder.glob(".*.old")):
        if torn.is_dir():
            shutil.rmtree(torn, ignore_errors=True)
        else:
            torn.unlink(missing_ok=True)


def is_occupied(folder: Path) -> bool:
    """Return true if something is in the way of a new folder; an empty folder is not."""
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def expanded(name: str | Path) -> Path:
    """A path, with ~ for a home; that of a user whom nobody knows stays as it is."""
    return Path(with_home(name))


def require_writable(folder: Path, inside: bool = False, setting: str = "output") -> None:
    """Refuse an output folder that cannot be made, before the work is done; makes nothing.

    With `inside` files are put into the folder; else a folder is built beside it and replaces it.

    Raises:
        UserError: with the system's reason.
    """
    if not (inside or folder.name):
        raise UserError(
            f"`{setting}` {folder}: name a folder that does not exist yet, such as ./model"
        )
    place = folder.absolute() if inside else folder.absolute().parent
    try:
        while not place.exists():
            place = place.parent
        with tempfile.TemporaryDirectory(prefix=".isospace-", dir=place):
            pass
    except OSError as error:
        raise UserError(
            f"`{setting}` {folder}: cannot be written ({error.strerror}). Give another folder"
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, UTF-8, atomically; bytes of file names that are no text are escaped."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def hash_of(content: bytes) -> str:
    """32 hexadecimal digits that name some bytes."""
    return blake2b(content, digest_size=16).hexdigest()


def file_hash(path: Path) -> str:
    """Return `hash_of` the bytes of a file."""
    return _digest_of(path, blake2b(digest_size=16))


def readable_hash(path: Path) -> str:
    """The same; "" for a file that cannot be read, such as a link to nowhere."""
    try:
        return file_hash(path)
    except OSError:
        return ""


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, 64 hexadecimal digits."""
    return _digest_of(path, sha256())


def _digest_of(path: Path, content: Any) -> str:
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            content.update(chunk)
    digest: str = content.hexdigest()
    return digest


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file, whose folder is made; a process that dies lets go of it.

    `busy` is what to say where another process holds it.

    Raises:
        UserError: another process holds it.
    """
    from filelock import FileLock, Timeout  # with asyncio, which a help text need not wait for

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, blocking=False):
            yield
    except Timeout:
        raise UserError(busy) from None
