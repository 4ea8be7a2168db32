"""Strings that are no text to Unicode, or no text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isospace.errors import UserError


def without_surrogates(text: str) -> str:
    r"""The text with "?" for each half of a surrogate pair, which no tokenizer and no file takes.

    JSON escapes of other languages have them, and arguments that are not UTF-8.

    >>> without_surrogates("caf\udce9")
    'caf?'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def require_strings(what: str, values: Sequence[Any]) -> None:
    """Refuse values that are no strings.

    Raises:
        UserError: which of them, by its place from 0, and what it is.
    """
    for place, value in enumerate(values):
        if not isinstance(value, str):
            raise UserError(
                f"{what} {place} is {str(value)[:40]!r} of type {type(value).__name__}, expected "
                'a string. Leave missing texts out, or give "" for them'
            )


def in_one_line(text: str) -> str:
    r"""A text as one line that cannot steer a terminal: other signs than printable ones are blanks.

    >>> in_one_line("two\nlines \x1b[2J")
    'two lines  [2J'
    """
    return "".join(sign if sign.isprintable() else " " for sign in text)
