"""Passages: the paragraphs of a document, joined or cut at sentence ends to a size.

The size counts words, not the tokens of an encoder, so that encoders can be compared on the same
passages. In scripts without spaces a character is a word, which is about what it is to tokenizers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from math import ceil

from isospace.corpus.dedup import UNSPACED
from isospace.corpus.lines import folded

_WORD = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}]+")

LONGEST_WORD = 40
"""Characters a word: a passage of more than that, all in all, is no text."""

Split = Callable[[str], list[str]]
"""A paragraph -> its sentences."""


def count_words(text: str) -> int:
    """How long a text is.

    >>> count_words("a cat sat."), count_words("猫が座った。")
    (3, 6)
    """
    return len(text.split()) if text.isascii() else len(_WORD.findall(text))


def _length(text: str) -> int:
    """How many words, of LONGEST_WORD characters at most: what is no text then stands alone."""
    return max(count_words(text), len(text) // LONGEST_WORD + 1)


def passages(paragraphs: Iterable[str], size: int, split: Split) -> Iterator[str]:
    """Passages of at most `size` words, of paragraphs that stand under one heading.

    Nothing is left out. A paragraph of up to `size` words is not cut; one of less than half of that
    is joined to its neighbours while they fit.

    >>> few = ["One.", "Two words.", "Three words more.", "So I end."]
    >>> list(passages(few, 6, str.splitlines))
    ['One. Two words. Three words more.', 'So I end.']
    >>> list(passages(["I saw it. You did not. No."], 4, lambda text: [text]))  # one long sentence
    ['I saw it. You', 'did not. No.']
    """
    joined, length = "", 0
    for paragraph in paragraphs:
        more = _length(paragraph)
        if joined and (length + more > size or 2 * min(length, more) > size):
            yield joined
            joined, length = "", 0
        if more > size:
            yield from _cut(paragraph, ceil(more / ceil(more / size)), size, split)
        else:
            joined, length = f"{joined} {paragraph}".lstrip(), length + more
    if joined:
        yield joined


def _cut(paragraph: str, aim: int, size: int, split: Split) -> Iterator[str]:
    """Parts of about `aim` words that end with sentences, and never of more than `size`."""
    part, length = "", 0
    for sentence in split(paragraph):
        more = _length(sentence)
        if part and length + more > size:
            yield part
            part, length = "", 0
        if more > size:
            *whole, sentence = _cut_anywhere(sentence, aim)
            yield from whole
            more = _length(sentence)
        part, length = folded(f"{part}\n{sentence}"), length + more
        if length >= aim:
            yield part
            part, length = "", 0
    if part:
        yield part


def _cut_anywhere(sentence: str, aim: int) -> Iterator[str]:
    """A sentence that is longer than a passage, at blanks, or between characters where none are."""
    part: list[str] = []
    length = 0
    for word in sentence.split():
        starts = [match.start() for match in _WORD.finditer(word)]
        if part and length + len(starts) > aim:
            yield " ".join(part)
            part, length = [], 0
        *whole, last = range(0, len(starts), aim)
        for first in whole:
            yield word[starts[first] : starts[first + aim]]
        part.append(word[starts[last] :])
        length += len(starts) - last
    yield " ".join(part)
