"""Counts in words."""

from __future__ import annotations

import re

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
