"""Checks and repairs of strings that are not valid Unicode, or not safe for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isospace.errors import UserError


def without_surrogates(text: str) -> str:
    r"""Return text with "?" for each half of a surrogate pair.

    No tokenizer and no file accepts such halves. They come from JSON escapes, and from command-line
    arguments that are not UTF-8.

    >>> without_surrogates("caf\udce9")
    'caf?'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def require_strings(what: str, values: Sequence[Any]) -> None:
    """Refuse values that are not strings; the message has the position, from 0, of the first."""
    for place, value in enumerate(values):
        if not isinstance(value, str):
            raise UserError(
                f"{what} {place} is {str(value)[:40]!r} of type {type(value).__name__}, expected "
                'a string. Leave missing texts out, or give "" for them'
            )


def in_one_line(text: str) -> str:
    r"""Return text as one line that is safe for a terminal, with blanks for unprintable characters.

    >>> in_one_line("two\nlines \x1b[2J")
    'two lines  [2J'
    """
    return "".join(sign if sign.isprintable() else " " for sign in text)
