"""Files and folders that appear only when they are complete, and the user's cache of such folders.

A kill at any moment leaves the old file or the new one, never half a file.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b, sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil
from safetensors import SafetensorError

from isospace.errors import UserError, first_line
from isospace.system.settings import with_home

if TYPE_CHECKING:
    import numpy as np  # functions import it, because it would delay a help text
    import numpy.typing as npt


def sync_tree(folder: Path) -> None:
    """Write a folder and all files below it to disk, so that they survive a power cut."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb+") as handle:
                os.fsync(handle.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Write renames inside a folder to disk, so that they survive a power cut (POSIX only)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, renamed to `path` if the block succeeds.

    Errors of safetensors become an OSError.
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
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        # A full disk: the error of an open file does not name the file.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path, replace: bool = False) -> Iterator[Path]:
    """Give a temporary folder beside `folder`, renamed to `folder` if the block succeeds.

    It replaces an empty folder, and with `replace` any. Errors of safetensors become an OSError.

    Raises:
        UserError: at the end of the block `folder` exists and is not empty; it is left unchanged.
    """
    remove_building(folder)
    building = building_of(folder)
    shutil.rmtree(building, ignore_errors=True)
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
    """Return the usual mode of a new file; safetensors makes files that only their owner reads."""
    umask = os.umask(0)  # setting the umask is the only way to read it
    os.umask(umask)
    return 0o666 & ~umask


def building_of(folder: Path) -> Path:
    """Return the place where this process builds or removes a folder; a kill may leave it."""
    return folder.with_name(f".{folder.name}.{os.getpid()}.tmp")


def remove_building(folder: Path) -> None:
    """Remove what ended processes left at `building_of` of a folder."""
    for torn in folder.parent.glob(f".{glob.escape(folder.name)}.*.tmp"):
        number = torn.suffixes[-2][1:]
        own = torn.name == f".{folder.name}.{number}.tmp"  # not the copy of model.v2
        # A process on another machine may have made it, but would be refused anyway.
        if own and number.isdecimal() and not psutil.pid_exists(int(number)):
            shutil.rmtree(torn, ignore_errors=True)


def _take_place(building: Path, folder: Path, replace: bool) -> None:
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if replace and folder.exists():
        shutil.rmtree(old, ignore_errors=True)  # left by a killed process with our process id
        folder.replace(old)
    elif is_occupied(folder):
        raise UserError(f"{folder}: another process has filled it meanwhile. Give another folder")
    elif folder.exists():
        folder.rmdir()  # some systems cannot rename onto an empty folder
    building.replace(folder)
    shutil.rmtree(old, ignore_errors=True)


def remove_torn(folder: Path) -> None:
    """Remove half-written files of killed processes from a folder that only this process writes."""
    for torn in chain(folder.glob(".*.tmp"), folder.glob(".*.old")):
        if torn.is_dir():
            shutil.rmtree(torn, ignore_errors=True)
        else:
            torn.unlink(missing_ok=True)


def is_occupied(folder: Path) -> bool:
    """Return true if a path exists and is not an empty folder."""
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def expanded(name: str | Path) -> Path:
    """Return a path with ~ replaced by the home folder; ~ of an unknown user is kept."""
    return Path(with_home(name))


def require_writable(folder: Path, inside: bool = False, setting: str = "output") -> None:
    """Refuse an output folder that cannot be made, before the work.

    With `inside`, files are written into the folder; else a new folder is built beside it.
    """
    if not (inside or folder.name):
        raise UserError(f"`{setting}` {folder}: name a new folder, such as ./model")
    place = folder.absolute() if inside else folder.absolute().parent
    try:
        while not place.exists():
            place = place.parent
        with tempfile.TemporaryDirectory(prefix=".isospace-", dir=place):
            pass
    except OSError as error:
        reason = f"cannot be written ({error.strerror}). Give another folder"
        raise UserError(f"`{setting}` {folder}: {reason}") from error


def require_new(folder: Path | None, setting: str = "output") -> Path:
    """Return an output folder to make; refuse it before the work if it cannot be made."""
    if folder is None:
        raise UserError(f"`{setting}` is missing. Name the folder to make")
    if is_occupied(folder):
        raise UserError(f"`{setting}` {folder}: exists already. Give another folder")
    require_writable(folder, setting=setting)
    return folder


SMALL_UNPACKED, MOST_TIMES = 1 << 28, 200
"""A file may have this number of bytes unpacked, or this number of times its packed bytes."""


def most_unpacked(packed: int) -> int:
    """Return the largest unpacked size of a file of `packed` bytes; a bomb exceeds it."""
    return max(SMALL_UNPACKED, MOST_TIMES * packed)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically; bytes that are not valid text are escaped."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write an npz file of named arrays atomically."""
    import numpy as np

    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


@contextmanager
def row_writer(
    path: Path, dtype: npt.DTypeLike, shape: tuple[int, int]
) -> Iterator[Callable[[np.ndarray], object]]:
    """Give a function that writes an npy file, some rows per call.

    The file is not memory-mapped: on a full disk, a mapped page would kill the process.
    """
    import numpy as np

    kind: np.dtype[Any] = np.dtype(dtype)
    descr = np.lib.format.dtype_to_descr(kind)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        yield lambda rows: file.write(rows.astype(kind).tobytes())


def read_arrays(path: Path, prefix: str = "") -> dict[str, np.ndarray]:
    """Read the arrays of an npz file whose names begin with a prefix."""
    import numpy as np

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if name.startswith(prefix)}
    # zip, zlib and numpy raise many kinds of errors; a damaged length can even exhaust memory.
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"{path}: cannot be read ({reason}). The file is damaged") from error


def hash_of(content: bytes) -> str:
    """Return the BLAKE2b hash of some bytes, 32 hexadecimal digits."""
    return blake2b(content, digest_size=16).hexdigest()


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, 64 hexadecimal digits."""
    content = sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            content.update(chunk)
    return content.hexdigest()


def readable_hash(path: Path) -> str:
    """Return the `file_hash` of a file, or "" if it cannot be read, such as a broken link."""
    try:
        return file_hash(path)
    except OSError:
        return ""


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file within the context; the lock of a process that dies is released.

    `busy` is the message if another process holds the lock.
    """
    from filelock import FileLock, Timeout  # imports asyncio, which would delay a help text

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, blocking=False):
            yield
    except Timeout:
        raise UserError(busy) from None


_PACKAGE = Path(__file__).parents[1]
_STALE_SECONDS = 7 * 24 * 3600
_DAMAGED = (FileNotFoundError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
"""Errors of reading a damaged file; others, such as too many open files, say nothing of it."""
_NO_CACHE = "the cache folder cannot be used ({}). Set ISOSPACE_CACHE to a writable folder"
Value = TypeVar("Value")


def cache_folder() -> Path:
    """Return the cache folder: ISOSPACE_CACHE, or `isospace` in the user's cache folder."""
    if chosen := os.environ.get("ISOSPACE_CACHE"):
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
    """Return hashes of the code of packages, for keys of a cache."""
    files = (file for name in packages for file in (_PACKAGE / name).rglob("*.py"))
    return tuple(map(file_hash, sorted([*files, _PACKAGE / "errors.py"])))


def built_once(folder: Path, build: Callable[[Path], None], read: Callable[[Path], Value]) -> Value:
    """Read a folder of the cache, and build it first if it is missing or damaged.

    `build` fills a new folder. If several processes build the same one, all use the first result.
    Half-built folders of killed processes are removed after a week.
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
        sync_tree(new)
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
