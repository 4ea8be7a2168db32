"""Plain text: paragraphs between blank lines, their lines joined.

Whether a file has paragraphs or a sentence a line is asked by `txt_layout`.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal

from isospace.corpus.formats.draft import Draft, decode

_TERMINAL = re.compile("\x1b\\[[0-9;]*m|.\x08")  # colours; letters struck twice for bold
_ENDS = tuple(".!?:;…。！？।؟")
_UNDERLINE = re.compile(r"([=\-~^*#])\1{2,}\s*")
_SIGNS = "#*=-~^"  # from the highest headings to the lowest, as Sphinx writes them
_TABLE_RULE = re.compile(r"\s*([=-])\1{2,}(?:\s+\1{3,})+\s*")
# An "o" is a word of some languages: a bullet of RFCs only where it is set apart.
_BULLET = re.compile(r"(?:\s*(?:[-*•+]|\(?\d{1,3}[.)])\s|\s+o\s{2})\s*(?=\S)")


def txt_layout(sample: str) -> Literal["paragraphs", "lines"]:
    r"""Tell whether a text is in paragraphs, or in lines of a sentence each.

    >>> txt_layout("One sentence.\nAnother one that is longer.\nA third.\n")
    'lines'
    """
    lines = _TERMINAL.sub("", sample).expandtabs().strip().splitlines()
    rules = [bool(_UNDERLINE.fullmatch(line.strip())) for line in lines]
    texts = ["" if rule else line for line, rule in zip(lines, rules, strict=True)]
    within = [
        (a, b)
        for a, b in itertools.pairwise(texts)
        if a.strip() and b.strip() and not _BULLET.match(b)
    ]
    # Rules part the texts of some files; those under headings are as wide as these.
    headed = 2 * sum(map(_underlined, itertools.pairwise(lines))) > sum(rules)
    if headed and not within:
        return "paragraphs"
    written = sum(bool(line.strip()) for line in lines)
    followed = [(a, b) for a, b in itertools.pairwise(lines) if a.strip() and b.strip()]
    blocks = len(lines) - written > 0.03 * written  # a blank line here and there is no paragraph
    long = sum(columns(line) > WIDTHS.stop for line in lines) > written / 2
    if (headed or blocks) and flows_on(within) and not _one_case(sample):
        return "paragraphs"
    if blocks and long and len(followed) < written / 4:
        return "paragraphs"
    goes_on = sum(not a.rstrip().endswith(_ENDS) for a, _ in followed) > len(followed) / 3
    begins_small = sum(b.lstrip()[0].islower() for _, b in followed) > len(followed) / 3
    wrapped = goes_on and (blocks or begins_small) and is_wrapped(lines)
    return "paragraphs" if wrapped and (blocks or not _one_case(sample)) else "lines"


def _one_case(text: str) -> bool:
    """Tell whether a text is all in small letters or all in capitals."""
    return text.lower() == text or text.upper() == text


def read_text(content: bytes, encoding: str | None) -> Draft:
    """Read plain text; headings are underlined, or in capitals and set apart."""
    text = _TERMINAL.sub("", decode(content, encoding)).expandtabs().replace("\f", "\n\n")
    draft = Draft()
    reader = _Plain(draft, vocabulary(text))
    for block in _blocks(text.split("\n")):
        reader.block(block)
    return draft


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines between blank lines; a heading is a block of its own."""
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
    """Tell whether two lines, or three, are a heading with the rule below it or around it."""
    if not 2 <= len(lines) <= 3:
        return False
    *above, heading, line = lines
    return (
        all(map(_UNDERLINE.fullmatch, (*above, line)))
        and not _UNDERLINE.fullmatch(heading)
        and abs(columns(line.strip()) - columns(heading.strip())) <= 2
    )


class _Plain:
    """Text as people write it."""

    def __init__(self, draft: Draft, words: set[str]) -> None:
        self._draft = draft
        self._words = words
        self._highest = ""  # the sign under the first heading

    def block(self, lines: list[str]) -> None:
        """Add what stands between two blank lines."""
        rules = [bool(_UNDERLINE.fullmatch(line.strip())) for line in lines]
        if _underlined(lines) or rules == [False, True]:
            self._draft.heading(lines[-2], self._level(lines[-1].strip()[0]))
        elif len(lines) == 1 and _in_capitals(lines[0], ""):
            self._draft.heading(lines[0], 2)
        elif _is_drawing(lines) or any(map(_TABLE_RULE.fullmatch, lines)):
            self._draft.leave_out("tables and drawings", text="\n".join(lines))
        else:
            written = [line for line, rule in zip(lines, rules, strict=True) if not rule]
            for piece in self._pieces(written):
                marker = _BULLET.match(piece[0])
                if marker:
                    piece[0] = piece[0][marker.end() :]
                    self._draft.item(joined(piece, self._words, hyphenates=False))
                else:
                    self._draft.paragraph(joined(piece, self._words, hyphenates=False))

    def _level(self, sign: str) -> int:
        """Rank a heading by the sign under it: "=" is highest, unless "#" or "*" comes first."""
        self._highest = self._highest or sign
        if self._highest in "#*":
            return max(1, 1 + _SIGNS.index(sign) - _SIGNS.index(self._highest))
        return 1 if sign == "=" else 2

    def _pieces(self, lines: Sequence[str]) -> Iterator[list[str]]:
        """Yield paragraphs, items and tables of lines without a blank line between them."""
        piece: list[str] = []
        for line in lines:
            if piece and _BULLET.match(line):
                yield piece
                piece = []
            piece.append(line)
        yield piece


def _is_drawing(lines: Sequence[str]) -> bool:
    """Tell whether most characters are neither letters nor digits, as in tables and drawings."""
    signs = "".join("".join(lines).split())
    # Marks are the vowels of Burmese and Hindi.
    return sum(unicodedata.category(sign)[0] in "LMN" for sign in signs) < len(signs) / 2


_HYPHENATED = re.compile(r"\b(\w+)[-\u2010]$")
_SENTENCE_END = re.compile(r"[.!?。！？…][\"'”’)]*\s*$")
_NEXT_WORD = re.compile(r"\w+")
_WORD = re.compile(r"\w+(?:-\w+)*")
WIDTHS = range(40, 141)
"""Columns that text is wrapped at."""


def columns(text: str) -> int:
    """Return the width in columns of a terminal; East Asian characters take two.

    >>> columns("abc"), columns("日本")
    (3, 4)
    """
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def is_wrapped(lines: Sequence[str]) -> bool:
    """Tell whether lines were broken because they were full: hard-wrapped paragraphs.

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
    """Tell whether most lines end no sentence and the next begin in small letters.

    In hard-wrapped text, however ragged, lines that others follow are long; verses and the items
    of a list are not.
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
    """Return the words of a text, for `joined`."""
    return {word.casefold() for word in _WORD.findall(text)}


def joined(lines: Sequence[str], words: set[str], hyphenates: bool) -> str:
    """Join lines, and undo the hyphens at their ends that only divide a word.

    The words of the whole document say whether "co-operate" or "cooperate" is meant; `hyphenates`
    decides where they do not.

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
