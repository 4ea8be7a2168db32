"""Whether code that comes with a model may run: only while a user of this process says so.

What says it is never a file: neither the settings of a run nor those of an index can.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_trusted: ContextVar[bool] = ContextVar("trusted", default=False)


def trusts_code() -> bool:
    """Whether it may run."""
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
