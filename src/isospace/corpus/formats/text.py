"""Plain text: paragraphs between blank lines, with their lines joined.

`txt_layout` decides whether a file has paragraphs or a sentence on each line.
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
_SIGNS = "#*=-~^"  # underlines from the highest to the lowest headings, as in Sphinx
_TABLE_RULE = re.compile(r"\s*([=-])\1{2,}(?:\s+\1{3,})+\s*")
# RFCs use "o" as a bullet, but it is a word in some languages: it needs blanks on both sides.
_BULLET = re.compile(r"(?:\s*(?:[-*•+]|\(?\d{1,3}[.)])\s|\s+o\s{2})\s*(?=\S)")


def txt_layout(sample: str) -> Literal["paragraphs", "lines"]:
    r"""Return "paragraphs", or "lines" if a text has a sentence on each line.

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
    # Some files separate texts with rules; a rule under a heading is as wide as the heading.
    headed = 2 * sum(map(_underlined, itertools.pairwise(lines))) > sum(rules)
    if headed and not within:
        return "paragraphs"
    written = sum(bool(line.strip()) for line in lines)
    followed = [(a, b) for a, b in itertools.pairwise(lines) if a.strip() and b.strip()]
    blocks = len(lines) - written > 0.03 * written  # a few blank lines make no paragraphs
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
    """Return true if a text is entirely in small letters or entirely in capitals."""
    return text.lower() == text or text.upper() == text


def read_text(content: bytes, encoding: str | None) -> Draft:
    """Read plain text; headings are underlined, or in capitals after a blank line."""
    text = _TERMINAL.sub("", decode(content, encoding)).expandtabs().replace("\f", "\n\n")
    draft = Draft()
    reader = _Plain(draft, vocabulary(text))
    for block in _blocks(text.split("\n")):
        reader.block(block)
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
        and abs(columns(line.strip()) - columns(heading.strip())) <= 2
    )


class _Plain:
    """Converter from blocks of plain text to headings, paragraphs and items."""

    def __init__(self, draft: Draft, words: set[str]) -> None:
        self._draft = draft
        self._words = words
        self._highest = ""  # the sign under the first heading

    def block(self, lines: list[str]) -> None:
        """Add the lines between two blank lines."""
        rules = [bool(_UNDERLINE.fullmatch(line.strip())) for line in lines]
        if _underlined(lines) or rules == [False, True]:
            self._draft.heading(lines[-2], self._level(lines[-1].strip()[0]))
        elif len(lines) == 1 and _in_capitals(lines[0], ""):
            self._draft.heading(lines[0], 2)
        elif _is_drawing(lines) or any(map(_TABLE_RULE.fullmatch, lines)):
            self._draft.leave_out("tables and drawings")
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
        """Return the level of a heading underlined with a sign.

        "=" is the highest, unless the first heading has "#" or "*".
        """
        self._highest = self._highest or sign
        if self._highest in "#*":
            return max(1, 1 + _SIGNS.index(sign) - _SIGNS.index(self._highest))
        return 1 if sign == "=" else 2

    def _pieces(self, lines: Sequence[str]) -> Iterator[list[str]]:
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
_SENTENCE_END = re.compile(r"[.!?。！？…][\"'”’)]*\s*$")
_NEXT_WORD = re.compile(r"\w+")
_WORD = re.compile(r"\w+(?:-\w+)*")
WIDTHS = range(40, 141)
"""Line widths, in columns, at which text is usually wrapped."""


def columns(text: str) -> int:
    """Return the width of a text in terminal columns; East Asian characters take two.

    >>> columns("abc"), columns("日本")
    (3, 4)
    """
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def is_wrapped(lines: Sequence[str]) -> bool:
    """Return true if lines are hard-wrapped: broken because they were full.

    A line was full if the first word of the next line did not fit on it. Only lines longer than two
    thirds of the usual width count. At least 60 % of them must be full, and at most half may end a
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
    # With a sentence on each line, lengths vary, so few lines are full.
    return usual in WIDTHS and full >= 0.6 * len(long) and ended <= 0.5 * len(long)


def flows_on(pairs: Sequence[tuple[str, str]]) -> bool:
    """Return true if most pairs of lines continue a sentence, and the first lines are long.

    A pair continues a sentence if its first line does not end one and its second begins with a
    small letter. Lines of verses and lists are not long enough.
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
    wide = columns(word[0]) == 2  # a script that allows a break anywhere
    return 2 if wide else min(columns(word), 20)


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
