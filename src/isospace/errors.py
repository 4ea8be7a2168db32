"""Exceptions for bad input and for work that ended early, and sentences for their messages."""

import difflib
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """Bad input or an impossible request.

    The message says what was wrong, where (file, line, value), what was expected and what to do.
    A setting is named as `its_field`; the command line makes that its option, prints the message
    without a traceback and exits with status 2.
    """


class TooLittle(UserError):
    """Too little text to train on or to measure with."""


class UnknownText(UserError):
    """A text without a vector in a file of vectors."""


class Stopped(Exception):
    """Work that ended early and can be continued; the message says how.

    The command line prints it and exits with status 1.
    """


class Interrupted(Stopped):
    """Work that a signal ended: Ctrl-C, a kill, a closed terminal."""


def no_such(kind: str, name: str, known: Iterable[str], lists_all: str = "") -> str:
    """Return a message for an unknown name, with the closest names or the command that lists all.

    Args:
        kind: what the name should be of, such as "objective".
        name: what was given.
        known: all names that there are.
        lists_all: the command that lists them; default: `isospace` with the plural of `kind`.

    >>> no_such("objective", "simsce", ["scd", "simcse", "esimcse"])
    'simsce: no such objective. Did you mean simcse or esimcse?'
    """
    hint = did_you_mean(name, known) or f"`{lists_all or f'isospace {kind}s'}` lists all"
    return f"{name or '(empty)'}: no such {kind}. {hint}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the known names closest to an unknown one; empty if none is close."""
    close = difflib.get_close_matches(name, known, n=3)
    return f"Did you mean {in_words(close, 'or')}?" if close else ""


def in_words(names: Sequence[str], last: str) -> str:
    """Return names as text, with `last` before the last one.

    >>> in_words(["minutes", "tokens", "epochs"], "or")
    'minutes, tokens or epochs'
    """
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type if it has no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
