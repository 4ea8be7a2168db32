"""Lines of a width back to paragraphs: for plain text and for PDF."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence

_HYPHENATED = re.compile(r"\b(\w+)[-\u2010]$")
_SENTENCE_END = re.compile(r"[.!?。！？…][\"'”’)]*\s*$")
_NEXT_WORD = re.compile(r"\w+")
_WORD = re.compile(r"\w+(?:-\w+)*")
WIDTHS = range(40, 141)
"""Columns that text is wrapped at."""


def columns(text: str) -> int:
    """The width in columns of a terminal, where East Asian characters take two.

    >>> columns("abc"), columns("日本")
    (3, 4)
    """
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def is_wrapped(lines: Sequence[str]) -> bool:
    """Whether lines were broken because they were full: hard-wrapped paragraphs.

    A line that is followed by another was full if the next one's first word had no place on it.
    Looked at are the lines of more than two thirds of the usual width, most of which do not end a
    sentence.
    """
    pairs = [
        (columns(line.rstrip()), _first_width(after), bool(_SENTENCE_END.search(line)))
        for line, after in itertools.pairwise(lines)
        if line.strip() and after.strip()
    ]
    if not pairs:
        return False
    widths = sorted(width for width, _, _ in pairs)
    usual = widths[int(0.9 * (len(widths) - 1))]
    long = [pair for pair in pairs if pair[0] > usual * 2 / 3]
    full = sum(width + 1 + word > usual for width, word, _ in long)
    ended = sum(end for _, _, end in long)
    # Sentences a line are of any length: few of them end where the next one's word had no place.
    return usual in WIDTHS and full >= 0.6 * len(long) and ended <= 0.5 * len(long)


def flows_on(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether lines go on in the next: most end no sentence, and the next begin in small letters.

    In hard-wrapped text, however ragged, lines that others follow are long; verses and the items
    of a list are not.

    Args:
        pairs: lines and what follows each in its block, of a text that has capitals too.
    """
    if not pairs:
        return False
    widths = sorted(columns(line.rstrip()) for line, _ in pairs)
    usual = widths[int(0.9 * (len(widths) - 1))]
    long = sum(width > usual * 2 / 3 for width in widths)
    small = sum(b.lstrip()[0].islower() and not _SENTENCE_END.search(a) for a, b in pairs)
    return usual in WIDTHS and long >= 0.9 * len(pairs) and small > len(pairs) / 2


def _first_width(line: str) -> int:
    word = line.split()[0]
    wide = columns(word[0]) == 2  # a script that breaks anywhere
    return 2 if wide else min(columns(word), 20)


def vocabulary(text: str) -> set[str]:
    """The words of a text, for `joined`."""
    return {word.casefold() for word in _WORD.findall(text)}


def joined(lines: Sequence[str], words: set[str], hyphenates: bool) -> str:
    """The lines as one, hyphens at their ends undone where they only divide a word.

    Args:
        lines: of one paragraph.
        words: of the whole document: they say whether "co-operate" or "cooperate" is meant.
        hyphenates: whether an ASCII hyphen divides a word where the document does not tell.

    >>> joined(["a hyphen-", "ated word, well-", "known"], {"well-known"}, True)
    'a hyphenated word, well-known'
    """
    whole: list[str] = []
    for line in map(str.strip, lines):
        last = whole[-1] if whole else ""
        before, after = _HYPHENATED.search(last), _NEXT_WORD.match(line)
        if not (before and after and line[0].islower() and before[1].isalpha()):
            whole.append(line)
            continue
        word, compound = before[1] + after[0], f"{before[1]}-{after[0]}"
        if word.casefold() in words:
            divides = True
        elif compound.casefold() in words:
            divides = False
        else:
            divides = hyphenates or last.endswith("\u2010")
        whole[-1] = last[:-1] + ("" if divides else "-") + line
    return "\n".join(whole)  # a line break, for what knows scripts without spaces
