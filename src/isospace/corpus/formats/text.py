"""Plain text: paragraphs between blank lines, with their lines joined.

`txt_layout` decides whether a file has paragraphs or a sentence on each line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from isospace.corpus.formats import Draft, decode

_TERMINAL = re.compile("\x1b\\[[0-9;]*m|.\x08")  # colours; letters struck twice for bold
_UNDERLINE = re.compile(r"([=\-~^*#])\1{2,}\s*")
_SIGNS = "#*=-~^"  # underlines from the highest to the lowest headings, as in Sphinx
_TABLE_RULE = re.compile(r"\s*([=-])\1{2,}(?:\s+\1{3,})+\s*")
# RFCs use "o" as a bullet, but it is a word in some languages: it needs blanks on both sides.
_BULLET = re.compile(r"(?:\s*(?:[-*•+]|\(?\d{1,3}[.)])\s|\s+o\s{2})\s*(?=\S)")


def txt_layout(lines: Iterable[str]) -> Literal["paragraphs", "lines"]:
    """Return "paragraphs" if there is a blank line for every ten other lines, else "lines".

    >>> txt_layout([]), txt_layout([*10 * ["A line."], ""]), txt_layout([*11 * ["A line."], ""])
    ('lines', 'paragraphs', 'lines')
    """
    blank = [not line.strip() for line in lines]
    return "paragraphs" if sum(blank) and 10 * sum(blank) >= blank.count(False) else "lines"


def read(content: bytes, encoding: str | None) -> Draft:
    """Read plain text; headings are underlined, or in capitals after a blank line."""
    text = _TERMINAL.sub("", decode(content, encoding)).expandtabs().replace("\f", "\n\n")
    draft, words = Draft(), vocabulary(text)
    highest = ""  # the sign under the first heading
    for lines in _blocks(text.split("\n")):
        rules = [bool(_UNDERLINE.fullmatch(line.strip())) for line in lines]
        if _underlined(lines) or rules == [False, True]:
            sign = lines[-1].strip()[0]
            highest = highest or sign
            draft.heading(lines[-2], _level(sign, highest))
        elif len(lines) == 1 and _in_capitals(lines[0], ""):
            draft.heading(lines[0], 2)
        elif _is_drawing(lines) or any(map(_TABLE_RULE.fullmatch, lines)):
            draft.leave_out("tables and drawings")
        else:
            written = [line for line, rule in zip(lines, rules, strict=True) if not rule]
            for piece in _pieces(written):
                marker = _BULLET.match(piece[0])
                if marker:
                    piece[0] = piece[0][marker.end() :]
                add = draft.item if marker else draft.paragraph
                add(joined(piece, words, hyphenates=False))
    return draft


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield blocks of lines between blank lines; a heading is a separate block."""
    block: list[str] = []
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if not line.strip():
            if block:
                yield block
            block = []
        elif not block and _in_capitals(line, after):
            yield [line]
        else:
            block.append(line)
            if _underlined(block):
                yield block
                block = []
    if block:
        yield block


def _in_capitals(line: str, after: str) -> bool:
    letters = [character for character in line if character.isalpha()]
    return (
        len(letters) >= 3
        and len(line) <= 60
        and line[0].isalpha()
        and all(letter.isupper() for letter in letters)
        and line.rstrip()[-1] not in ".,;!?"
        and (not after.strip() or after[0] == " ")
    )


def _underlined(lines: Sequence[str]) -> bool:
    """Return true if lines are a heading with a rule below it, or above and below."""
    if not 2 <= len(lines) <= 3:
        return False
    *above, heading, line = lines
    return (
        all(map(_UNDERLINE.fullmatch, (*above, line)))
        and not _UNDERLINE.fullmatch(heading)
        and abs(display_width(line.strip()) - display_width(heading.strip())) <= 2
    )


def _level(sign: str, highest: str) -> int:
    """Return the level of a heading underlined with a sign.

    "=" is the highest, unless the first heading has "#" or "*".
    """
    if highest in "#*":
        return max(1, 1 + _SIGNS.index(sign) - _SIGNS.index(highest))
    return 1 if sign == "=" else 2


def _pieces(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the paragraphs and items in a block of lines."""
    piece: list[str] = []
    for line in lines:
        if piece and _BULLET.match(line):
            yield piece
            piece = []
        piece.append(line)
    yield piece


def _is_drawing(lines: Sequence[str]) -> bool:
    """Return true if most characters are neither letters nor digits, as in tables and drawings."""
    signs = "".join("".join(lines).split())
    # Marks (M) count, because they are the vowels of Burmese and Hindi.
    return sum(unicodedata.category(sign)[0] in "LMN" for sign in signs) < len(signs) / 2


_HYPHENATED = re.compile(r"\b(\w+)[-\u2010]$")
_NEXT_WORD = re.compile(r"\w+")
_WORD = re.compile(r"\w+(?:-\w+)*")


def display_width(text: str) -> int:
    """Return the width of a text in terminal columns; East Asian characters take two.

    >>> display_width("abc"), display_width("日本")
    (3, 4)
    """
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def vocabulary(text: str) -> set[str]:
    """Return the words of a text, for `joined`."""
    return {word.casefold() for word in _WORD.findall(text)}


def joined(lines: Sequence[str], words: set[str], hyphenates: bool) -> str:
    """Join lines, and remove hyphens at line ends that only divide a word.

    The `words` of the whole document decide between "co-operate" and "cooperate". If they have
    neither, `hyphenates` decides.

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
    return "\n".join(whole)  # `folded` joins these lines, without a blank in some scripts
