"""Counts in words."""

from __future__ import annotations

import re

_ENDINGS = {"ies": "y", "pses": "psis", "s": ""}
_PLURAL = re.compile(rf"(?:{'|'.join(_ENDINGS)})\b")
_AFTER = re.compile(r" (?=(?:of|by|with|to)\b)")


def number_of(count: float, what: str) -> str:
    """A count and what it is of, which is given in the plural and put in the singular for one.

    >>> number_of(1200, "near duplicates"), number_of(1, "near duplicates"), number_of(1, "queries")
    ('1,200 near duplicates', '1 near duplicate', '1 query')
    >>> number_of(1, "groups of documents"), number_of(1, "synopses left out")
    ('1 group of documents', '1 synopsis left out')
    >>> number_of(1.0, "minutes"), number_of(0.5, "points")
    ('1 minute', '0.5 points')
    """
    if count == 1:
        noun, *rest = _AFTER.split(what, maxsplit=1)
        what = " ".join([_PLURAL.sub(lambda end: _ENDINGS[end[0]], noun), *rest])
    return f"{count:,} {what}" if isinstance(count, int) else f"{count:g} {what}"
