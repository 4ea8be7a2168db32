"""A passage without the words of its title: what a pair says beyond the words that it shares."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")


def without_words_of(first: str, second: str) -> str:
    """The second text without the words of the first, in either case.

    >>> without_words_of("Opening files", "It is for opening text files, and closing them.")
    'It is for text , and closing them.'
    """
    words = {word.casefold() for word in _WORD.findall(first)}
    kept = _WORD.sub(lambda found: "" if found[0].casefold() in words else found[0], second)
    return " ".join(kept.split())
