"""The exceptions that are meant for the person at the keyboard."""

import difflib
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """Bad input or an impossible request.

    The message says what was wrong, where (file, line, value), what was expected and what to do.
    A setting is named as `its_field`; the command line makes that its option, prints the message
    without a traceback and exits with status 2.
    """


class TooLittle(UserError):
    """There is too little text to train on, or to measure anything by."""


class UnknownText(UserError):
    """A text has no vector, in a file of vectors that knows only its own texts."""


class Stopped(Exception):
    """Work ended early; what is left of it can be gone on with, and the message says how.

    The command line prints it and exits with status 1.
    """


class Interrupted(Stopped):
    """Ended early by a signal: Ctrl-C, a polite kill, a closed terminal."""


def no_such(kind: str, name: str, known: Iterable[str], lists_all: str = "") -> str:
    """Say that a name is unknown, and suggest the closest names, else the command that lists all.

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
    """Suggest the names that are closest to one that is unknown; nothing where none is close."""
    close = difflib.get_close_matches(name, known, n=3)
    return f"Did you mean {in_words(close, 'or')}?" if close else ""


def in_words(names: Sequence[str], last: str) -> str:
    """List names in words, with `last` before the last one.

    >>> in_words(["minutes", "tokens", "epochs"], "or")
    'minutes, tokens or epochs'
    """
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def first_line(error: Exception) -> str:
    """The first line of what another library's error says; its type where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
