"""The exceptions that are meant for the person at the keyboard."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad input or an impossible request.

    The message says what was wrong, where (file, line, value), what was expected and what to do.
    A setting is named as `its_field`; the command line makes that its option, prints the message
    without a traceback and exits with status 2.
    """


class TooLittle(UserError):
    """There is too little text to train on, or to measure anything by."""


class Stopped(Exception):
    """Work ended early; what is left of it can be gone on with, and the message says how.

    The command line prints it and exits with status 1.
    """


class Interrupted(Stopped):
    """Ended early by a signal: Ctrl-C, a polite kill, a closed terminal."""


def no_such(kind: str, name: str, known: Iterable[str]) -> str:
    """What to say of a name that is none: the closest ones, else the verb that lists all."""
    close = difflib.get_close_matches(name, known, n=5, cutoff=0.4)
    hint = f"close: {', '.join(close)}" if close else f"`isospace {kind}s` lists all"
    return f"{name or '(empty)'}: no such {kind}; {hint}"


def first_line(error: Exception) -> str:
    """The first line of what another library's error says; its type where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
