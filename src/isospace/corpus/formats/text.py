"""Plain text: paragraphs between blank lines, their lines joined; man pages as `man` renders them.

Whether a file has paragraphs or a sentence a line is asked by `txt_layout`.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal

from isospace.corpus.formats.draft import Draft, decode, one_line
from isospace.corpus.formats.lines import WIDTHS, columns, flows_on, is_wrapped, joined, vocabulary
from isospace.corpus.formats.man import LEFT_OUT, references, section_kind

_TERMINAL = re.compile("\x1b\\[[0-9;]*m|.\x08")  # colours; letters struck twice for bold
_RENDERED = re.compile(r"\s*(\S[^()]*\(\d\w*\)).*\1\s*")
_BOXED = re.compile(r"\s*(?:[│├└┌|]|\+[-=])")  # a line of a table
_ENDS = tuple(".!?:;…。！？।؟")
_UNDERLINE = re.compile(r"([=\-~^*#])\1{2,}\s*")
_SIGNS = "#*=-~^"  # from the highest headings to the lowest, as Sphinx writes them
_TABLE_RULE = re.compile(r"\s*([=-])\1{2,}(?:\s+\1{3,})+\s*")
# An "o" is a word of some languages: a bullet of RFCs only where it is set apart.
_BULLET = re.compile(r"(?:\s*(?:[-*•+]|\(?\d{1,3}[.)])\s|\s+o\s{2})\s*(?=\S)")


def txt_layout(sample: str) -> Literal["paragraphs", "lines"]:
    r"""Whether a text is in paragraphs or in lines that stand for themselves, a sentence each.

    Args:
        sample: its beginning, some hundred lines.

    >>> txt_layout("One sentence.\nAnother one that is longer.\nA third.\n")
    'lines'
    """
    lines = _TERMINAL.sub("", sample).expandtabs().strip().splitlines()
    if lines and _RENDERED.fullmatch(lines[0]):
        return "paragraphs"
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
    """Whether the case of a line's first letter says nothing on where sentences begin."""
    return text.lower() == text or text.upper() == text


def read_text(content: bytes, encoding: str | None) -> Draft:
    """Headings are underlined, or in capitals between blank or indented lines."""
    text = _TERMINAL.sub("", decode(content, encoding)).expandtabs().replace("\f", "\n\n")
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    rendered = _RENDERED.fullmatch(first)
    draft = Draft()
    if rendered:
        lines = _without_page_lines(draft, lines, rendered[1])
    words = vocabulary(text)
    reader = _Rendered(draft, words) if rendered else _Plain(draft, words)
    for block in _blocks(lines):
        reader.block(block)
    return draft


def _without_page_lines(draft: Draft, lines: Sequence[str], page: str) -> list[str]:
    """Without the first and last line of each page, which name it; not so the last of mdoc(7)."""
    last = next(line for line in reversed(lines) if line.strip())
    foot = last if re.search(r"\S {3,}\S.* {3,}\S", last) and last[0] != " " else page
    kept = [
        line
        for line in lines
        if not (line.startswith(page) or line.rstrip().endswith(page) or line == foot)
    ]
    draft.leave_out("page headers and footers", len(lines) - len(kept))
    return kept


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Lines between blank lines; a heading is a block of its own."""
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
    """Whether the second last of two lines is a heading by the last, or of three by both others."""
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
        """What stands between two blank lines."""
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
        """Of a heading, by the sign under it: "=" is the highest, unless "#" or "*" comes first."""
        self._highest = self._highest or sign
        if self._highest in "#*":
            return max(1, 1 + _SIGNS.index(sign) - _SIGNS.index(self._highest))
        return 1 if sign == "=" else 2

    def _pieces(self, lines: Sequence[str]) -> Iterator[list[str]]:
        """The items of a list without blank lines."""
        piece: list[str] = []
        for line in lines:
            if piece and _BULLET.match(line):
                yield piece
                piece = []
            piece.append(line)
        yield piece


class _Rendered:
    """A man page as `man` shows it: section headings alone are not indented."""

    def __init__(self, draft: Draft, words: set[str]) -> None:
        self._draft = draft
        self._words = words
        self._kind: str | None = None

    def block(self, lines: list[str]) -> None:
        """What stands between two blank lines."""
        if len(lines) == 1 and not lines[0].startswith(" "):
            self._heading(lines[0])
            return
        for piece in self._pieces(lines):
            text = one_line(joined(piece, self._words, hyphenates=True))
            if self._kind == "name":
                self._draft.title = self._draft.title or text
            elif self._kind == "see also":
                for page in references(text):
                    self._draft.link(page)
            elif self._kind is None and not _is_drawing(piece):
                self._draft.paragraph(text)
            else:
                what = LEFT_OUT.get(self._kind or "", "tables and drawings")
                self._draft.leave_out(what, 0, text)

    def _heading(self, line: str) -> None:
        heading = one_line(line)
        if not any(map(str.isalnum, heading)):  # a rule
            return
        self._kind = section_kind(heading)
        if self._kind in LEFT_OUT:
            self._draft.leave_out(LEFT_OUT[self._kind])
        elif self._kind is None:
            self._draft.heading(heading, 2)

    def _pieces(self, lines: Sequence[str]) -> Iterator[list[str]]:
        """A line that is indented less than the one before begins another, as a table does."""
        piece: list[str] = []
        for line in lines:
            if not line.startswith(" "):
                if piece:
                    yield piece
                self._heading(line)
                piece = []
                continue
            of_table = bool(_BOXED.match(line)) != bool(piece and _BOXED.match(piece[-1]))
            if piece and (of_table or _indent(line) < _indent(piece[-1])):
                yield piece
                piece = []
            piece.append(line)
        if piece:
            yield piece


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_drawing(lines: Sequence[str]) -> bool:
    """Whether most of the signs are no letters or digits: tables, rules, drawings."""
    signs = "".join("".join(lines).split())
    # Marks are the vowels of Burmese and Hindi.
    return sum(unicodedata.category(sign)[0] in "LMN" for sign in signs) < len(signs) / 2
