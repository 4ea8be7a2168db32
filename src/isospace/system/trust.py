"""Trust in code: a model's own code runs only while a user of this process allows it.

What says it is never a file: neither the settings of a run nor those of an index can.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment of child processes: they do not look for modules in the folder that the user is in,
whose random.py may be anything."""

_trusted: ContextVar[bool] = ContextVar("trusted", default=False)


def trusts_code() -> bool:
    """Return true if a model's own code may run."""
    return _trusted.get()


@contextmanager
def trusting_code(trusted: bool = True) -> Iterator[None]:
    """Let code run that comes with models which are loaded inside.

    Where it is not `trusted` what is said outside holds.

    >>> with trusting_code():
    ...     trusts_code()
    True
    >>> trusts_code()
    False
    """
    token = _trusted.set(trusted or trusts_code())
    try:
        yield
    finally:
        _trusted.reset(token)
