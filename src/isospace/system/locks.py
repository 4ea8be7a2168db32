"""Files that say that a process is at work in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from isospace.errors import UserError


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file, whose folder is made; a process that dies lets go of it.

    Args:
        path: the file.
        busy: what to say where another process holds it, and what to do then.

    Raises:
        UserError: another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, blocking=False):
            yield
    except Timeout:
        raise UserError(busy) from None
