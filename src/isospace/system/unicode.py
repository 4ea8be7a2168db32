"""Repairs of strings, and one spelling for characters that look the same.

Strings may be invalid Unicode, or unsafe for a terminal. A tokenizer separates characters that a
reader cannot tell apart. Normalisation covers ligatures and other shapes of letters, widths, kinds
of blanks and hyphens, accents, and invisible characters. NFKC would change too much: x² would
become x2, and ½ and ™ several characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain
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


_SHAPES = (
    "ĲĳĿŀſǄǅǆǇǈǉǊǋǌǱǲǳ"  # two letters in one character, and the long s
    "ℊℋℌℎℐℑℒℛℜℨℬℭℯℰℱℳℴ"  # mathematical letters outside the block of mathematical letters
    "⺟⻳"
)
_SHAPE_BLOCKS = (
    (0x00A0, 0x00A0),  # blanks
    (0x2000, 0x200A),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x2160, 0x217F),  # Roman numerals
    (0x2F00, 0x2FD5),  # radicals that look like whole Chinese characters
    (0x3000, 0x3000),
    (0xFB00, 0xFB4F),  # Latin, Armenian and Hebrew ligatures
    (0xFB50, 0xFDFF),  # Arabic letters in their shapes within words
    (0xFE11, 0xFE12),  # punctuation for vertical text
    (0xFE17, 0xFE18),
    (0xFE39, 0xFE44),
    (0xFE70, 0xFEFC),  # Arabic letters
    (0xFF02, 0xFF5C),  # letters, digits and signs of full width
    (0xFF61, 0xFF9F),  # katakana of half width
    (0x1D400, 0x1D7FF),  # mathematical letters
)
_ORDINARY = "（），．：；？［］｛"
"""Full-width punctuation that is usual in Chinese and Japanese, and stays."""
_INVISIBLE_BLOCKS = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),
    (0x061C, 0x061C),  # marks of direction, here and in the next two blocks
    (0x200E, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x2064),  # word joiner, invisible operators
    (0x2066, 0x2069),
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xE0100, 0xE01EF),  # selectors among the shapes of a Chinese character
)
_OTHERS = {"\u2010": "-", "\u2011": "-", "\u02bc": "’", "ŉ": "’n", "\u201b": "‘", "\u201f": "“"}


def _table() -> dict[str, str]:
    """Return character -> replacement, for replacements that do not depend on the context."""

    def characters(blocks: tuple[tuple[int, int], ...]) -> chain[str]:
        return chain.from_iterable(map(chr, range(low, high + 1)) for low, high in blocks)

    table = dict.fromkeys(characters(_INVISIBLE_BLOCKS), "") | _OTHERS
    for sign in chain(_SHAPES, characters(_SHAPE_BLOCKS)):
        plain = unicodedata.normalize("NFKC", sign)
        # NFKC gives marks without a letter a blank: skip them. Double-struck letters name sets.
        alone = " " in plain and len(plain) > 1
        kept = sign in _ORDINARY or "DOUBLE-STRUCK" in unicodedata.name(sign, "")
        if plain != sign and not alone and not kept:
            table[sign] = plain
    return table


_TABLE = _table()
# Blocks beyond U+FFFF are ranges: listing their characters would be 100 times slower.
_BELOW = "".join(sign for sign in _TABLE if sign <= "\uffff")
_CHANGED = re.compile(f"[{re.escape(_BELOW)}\U0001d400-\U0001d7ff\U000e0100-\U000e01ef]")
_DIVIDED = re.compile(r"\u00ad\s*\n\s*")
_ZERO_WIDTH = re.compile(
    # The zero-width space separates words of Thai, Lao, Burmese and Khmer.
    "(?<![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\u200b"
    # Joiners matter in Persian, Hindi and emoji; they have no effect after Latin letters.
    "|(?<![^\0-\u058f\u1e00-\u214f])[\u200c\u200d]"
)
_IN_NUMBER = re.compile("(?<=[0-9])[．，：](?=[0-9])")


def normalise(text: str) -> str:
    r"""Return the text with one spelling for characters that look the same, without invisible ones.

    >>> normalise("e\ufb03cient\u00a0co\u2011op Unter\u00adneh\u00admen ｶﾞ cafe\u0301 x² …")
    'efficient co-op Unternehmen ガ café x² …'
    """
    if text.isascii():
        return text
    text = _DIVIDED.sub("", text)
    text = _CHANGED.sub(lambda found: _TABLE.get(found[0], found[0]), text)
    text = unicodedata.normalize("NFC", text)
    if not text.isprintable():
        text = _ZERO_WIDTH.sub("", text)
    text = _IN_NUMBER.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    return unicodedata.normalize("NFC", text)
