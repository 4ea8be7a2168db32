"""Trust in code: a model's own code runs only while the user of this process allows it.

A file can never allow it, not even the settings of a run or of an index.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment of child processes. It stops Python from importing modules from the current folder,
where a file such as random.py could hold any code."""

_trusted: ContextVar[bool] = ContextVar("trusted", default=False)


def trusts_code() -> bool:
    """Return true if a model's own code may run."""
    return _trusted.get()


@contextmanager
def trusting_code(trusted: bool = True) -> Iterator[None]:
    """Let the code of models that are loaded within the context run.

    If `trusted` is false, the outer context decides.

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
