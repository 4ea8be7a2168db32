"""The words that a text shares with a query."""

from __future__ import annotations

import re

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

LONGEST_SHOWN = 400
"""Characters of a text that are shown; a corpus can hold a book in one line."""

_WORD = re.compile(r"(\w+)")


def marked(text: str, query: str) -> list[tuple[str, bool]]:
    """A text in pieces, those that are words of the query marked; without case.

    English function words do not count, and a long text is cut.

    >>> marked("A dog runs.", "The dogs of a DOG")
    [('A', False), (' ', False), ('dog', True), (' ', False), ('runs', False), ('.', False)]
    """
    words = {word.casefold() for word in _WORD.findall(query)} - ENGLISH_STOP_WORDS
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
    return [(piece, piece.casefold() in words) for piece in _WORD.split(shown) if piece]
