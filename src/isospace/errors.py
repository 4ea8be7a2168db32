"""Exceptions for bad input and for work that ended early, and sentences for their messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """Bad input or an impossible request: what was wrong, where, what was expected, what to do.

    A setting is named as `its_field`, which the command line makes its option. Exit status 2.
    """


class TooLittle(UserError):
    """Too little text to train on or to measure with."""


class Stopped(Exception):
    """Work that ended early and can be continued; the message says how. Exit status 1."""


class Interrupted(Stopped):
    """Work that a signal ended: Ctrl-C, a kill, a closed terminal."""


def no_such(kind: str, name: str, known: Iterable[str], lists_all: str = "") -> str:
    """Return a message for an unknown name, with the closest names or the command that lists all.

    `kind` is what the name should be of. The command is `lists_all`, or `isospace` with its plural.

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


_ENDINGS = {"ies": "y", "pses": "psis", "es": "", "s": ""}
_PLURAL = re.compile(r"(?:(?<=\w\w)ies|pses|(?<=ch|sh|ss)es|(?<=x)es|(?<![sui])s)\b")
_AFTER = re.compile(r" (?=(?:of|by|with|to)\b)")


def number_of(count: float, what: str) -> str:
    """Return a count and its noun, which is given in the plural and made singular for one.

    >>> number_of(1200, "near duplicates"), number_of(1, "near duplicates"), number_of(1, "queries")
    ('1,200 near duplicates', '1 near duplicate', '1 query')
    >>> number_of(1, "groups of documents"), number_of(1, "processes"), number_of(0.5, "minutes")
    ('1 group of documents', '1 process', '0.5 minutes')
    >>> number_of(1, "synopses left out"), number_of(1, "related to what is held out")
    ('1 synopsis left out', '1 related to what is held out')
    """
    if count == 1:
        noun, *rest = _AFTER.split(what, maxsplit=1)
        what = " ".join([_PLURAL.sub(lambda end: _ENDINGS[end[0]], noun), *rest])
    if isinstance(count, float):
        count = int(count) if count.is_integer() else count
    return f"{count:,} {what}"
