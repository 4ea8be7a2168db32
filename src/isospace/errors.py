"""Exceptions for bad input and for work that ended early, and sentences for their messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """Bad input or an impossible request.

    The message says what was wrong, where (file, line, value), what was expected and what to do.
    A setting is named as `its_field`; the command line makes that its option, prints the message
    without a traceback and exits with status 2.
    """


class TooLittle(UserError):
    """Too little text to train on or to measure with."""


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


_ENDINGS = {"ies": "y", "pses": "psis", "es": "", "s": ""}
_PLURAL = re.compile(r"(?:(?<=\w\w)ies|pses|(?<=ch|sh|ss)es|(?<=x)es|(?<![sui])s)\b")
_AFTER = re.compile(r" (?=(?:of|by|with|to)\b)")


def number_of(count: float, what: str) -> str:
    """Return a count and its noun, which is given in the plural and made singular for one.

    >>> number_of(1200, "near duplicates"), number_of(1, "near duplicates"), number_of(1, "queries")
    ('1,200 near duplicates', '1 near duplicate', '1 query')
    >>> number_of(1, "groups of documents"), number_of(1, "synopses left out")
    ('1 group of documents', '1 synopsis left out')
    >>> number_of(1, "batches"), number_of(1, "processes"), number_of(1, "classes less")
    ('1 batch', '1 process', '1 class less')
    >>> number_of(1, "boxes"), number_of(1, "ties"), number_of(1, "entries"), number_of(1, "cases")
    ('1 box', '1 tie', '1 entry', '1 case')
    >>> number_of(1, "related to what is held out"), number_of(1, "authors and reports left out")
    ('1 related to what is held out', '1 author and report left out')
    >>> number_of(1.0, "minutes"), number_of(1500000.0, "tokens"), number_of(0.5, "minutes")
    ('1 minute', '1,500,000 tokens', '0.5 minutes')
    """
    if count == 1:
        noun, *rest = _AFTER.split(what, maxsplit=1)
        what = " ".join([_PLURAL.sub(lambda end: _ENDINGS[end[0]], noun), *rest])
    if isinstance(count, float):
        count = int(count) if count.is_integer() else count
    return f"{count:,} {what}"
