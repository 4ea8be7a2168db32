"""PDF, read by pypdf.

A PDF page has only lines with coordinates. Gaps, letter sizes and repetition show which lines are
paragraphs, headings and page headers.
"""

from __future__ import annotations

import io
import itertools
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pypdf

from isospace.corpus.formats import Draft, UnreadableDocument
from isospace.corpus.formats.text import display_width, joined, vocabulary
from isospace.corpus.lines import clean
from isospace.system.progress import log_level

HEADING_SIZE = 1.15
"""A line is a heading if its letters are larger than the usual size by this factor."""
MOST_BOLD = 0.25
"""Largest share of bold letters: with more, a bold line is not a heading."""
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.|s\.)\s*)?(?:\d{1,4}|[ivxlc]{1,7})(?:\s*(?:/|of|von|de|sur)\s*\d{1,4})?\W*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[•‣◦▪●–]|\(?\d{1,2}[.)])\s+(?=\S)")
# Name of a bold font; LaTeX names fonts by weight and width.
_BOLD = re.compile(r"bold|black|heavy|demi|medi(?:ital)?$|\b(?:cmb|sfb|ecb)x?\d", re.IGNORECASE)
_DIVIDED = re.compile(r"\u00ad\s*$")
_END = re.compile(r"[.!?:;。！？][\"'”’»)\]]*$")
_NO_TITLE = re.compile(r"untitled.*|\(anonymous\)|microsoft word -.*|.*\.\w{2,4}", re.IGNORECASE)


@dataclass
class _Line:
    text: str
    x: float
    y: float
    size: float
    bold: bool


@log_level("pypdf", logging.ERROR)  # pypdf warns of defects that it repairs
def read(content: bytes, encoding: str | None) -> Draft:
    """Read PDF; the title is the file's property, else the text in the largest letters."""
    draft = Draft()
    reader = pypdf.PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableDocument("It is encrypted. Save a copy without a password.")
    pages = [_page_lines(page) for page in reader.pages]
    if not any(pages):
        raise UnreadableDocument(
            "It has pictures of text, but no text. Run text recognition first, such as OCRmyPDF."
        )
    named = clean(str((reader.metadata and reader.metadata.title) or ""))
    outline = {_key(title): level for title, level in _outline(reader.outline, 1)}
    draft.title = "" if _NO_TITLE.fullmatch(named) else named
    _add(draft, _without_page_lines(draft, pages), outline)
    return draft


def _page_lines(page: Any) -> list[_Line]:
    lines: list[_Line] = []
    current: _Line | None = None

    def visit(text: str, matrix: list[float], place: list[float], font: Any, size: float) -> None:
        nonlocal current
        x = place[4] * matrix[0] + place[5] * matrix[2] + matrix[4]
        y = place[4] * matrix[1] + place[5] * matrix[3] + matrix[5]
        scaled = abs(size) * math.hypot(*place[2:4]) * math.hypot(*matrix[2:4])
        bold = _BOLD.search(str((font or {}).get("/BaseFont", ""))) is not None
        for number, part in enumerate(text.split("\n")):
            if number:
                current = None
            if not part.strip():
                if current:
                    current.text += part
            elif current:
                current.text += part
                current.bold &= bold
            else:
                current = _Line(part, x, y, scaled, bold)
                lines.append(current)

    page.extract_text(visitor_text=visit)
    for line in lines:
        # A soft hyphen at the end of a line is visible.
        line.text = clean(_DIVIDED.sub("-", line.text))
    return [line for line in lines if line.text]


def _outline(entries: Iterable[Any], level: int) -> Iterable[tuple[str, int]]:
    for entry in entries:
        if isinstance(entry, list):
            yield from _outline(entry, level + 1)
        else:
            yield str(entry.title or ""), level


def _key(text: str) -> str:
    return re.sub(r"\W+", "", text).casefold()


def _without_page_lines(draft: Draft, pages: Sequence[list[_Line]]) -> list[list[_Line]]:
    """Leave out page numbers, and lines that repeat at the top or foot of pages."""
    edges = []
    for lines in pages:
        by_height = sorted(lines, key=lambda line: line.y)
        edges.append([*by_height[:2], *by_height[2:][-2:]])
    seen = Counter(key for lines in edges for key in {_repeated(line) for line in lines})
    largest = HEADING_SIZE * _body_size([line for lines in pages for line in lines])
    kept = []
    for lines, edge in zip(pages, edges, strict=True):
        outside = [
            id(line)
            for line in edge
            if _PAGE_NUMBER.fullmatch(line.text)
            # Left and right pages may differ, hence 0.4. "Chapter 1" is larger, and kept.
            or (
                len(pages) >= 3
                and line.size <= largest
                and seen[_repeated(line)] >= max(2, 0.4 * len(pages))
            )
        ]
        draft.leave_out("page headers and footers", len(outside))
        kept.append([line for line in lines if id(line) not in outside])
    return kept


def _repeated(line: _Line) -> str:
    return re.sub(r"\d+", "#", line.text)


def _add(draft: Draft, pages: Sequence[list[_Line]], outline: dict[str, int]) -> None:
    lines = [line for page in pages for line in page]
    if not lines:
        return
    words = vocabulary("\n".join(line.text for line in lines))
    _forget_usual_weight(lines)
    body = _body_size(lines)
    larger = sorted({round(line.size) for line in lines if line.size > HEADING_SIZE * body})[::-1]
    # If the usual size rounds to 0, all lines are larger.
    usual_lines = [line for line in lines if line.size <= HEADING_SIZE * body] or lines
    usual = median(display_width(line.text) for line in usual_lines)
    gap = _usual_gap(pages)
    paragraph: list[_Line] = []
    first = lines[0]

    def end() -> None:
        if not paragraph:
            return
        texts = [line.text for line in paragraph]
        level = outline.get(_key("".join(texts)))
        if level is None:
            level = _level(paragraph, body, larger, paragraph[0] is first)
        text = joined(texts, words, hyphenates=True)
        marker = _BULLET.match(text)
        if level:
            draft.heading(text, level)
        elif marker:
            draft.item(text[marker.end() :])
        else:
            draft.paragraph(text)
        paragraph.clear()

    for page in pages:
        for number, line in enumerate(page):
            if paragraph and _begins(line, paragraph, number > 0, gap, usual, outline):
                end()
            paragraph.append(line)
    end()


def _forget_usual_weight(lines: Sequence[_Line]) -> None:
    """Mark all lines as not bold if much of the text is bold."""
    bold = sum(len(line.text) for line in lines if line.bold)
    if bold > MOST_BOLD * sum(len(line.text) for line in lines):
        for line in lines:
            line.bold = False


def _level(
    paragraph: Sequence[_Line], body: float, larger: Sequence[int], first: bool
) -> int | None:
    """Return the level of a heading by its size or weight; `None` for other text.

    A heading of normal size is bold, and is neither a sentence, nor an item, nor in small letters.
    If the `first` paragraph is such a heading and no text is larger, it is the title.
    """
    text = " ".join(line.text for line in paragraph)
    if len(text) > 200:
        return None
    if paragraph[0].size > HEADING_SIZE * body:
        return larger.index(round(paragraph[0].size)) + 1
    marker = _BULLET.match(text)
    item = marker is not None and not re.search(r"\d", marker[0])
    small = paragraph[0].size < 0.9 * body
    if item or small or _END.search(text) or not all(line.bold for line in paragraph):
        return None
    return 1 if first and not larger else max(2, len(larger) + 1)


def _begins(
    line: _Line,
    paragraph: Sequence[_Line],
    same_page: bool,
    gap: float,
    usual: float,
    outline: dict[str, int],
) -> bool:
    last = paragraph[-1]
    ended = _END.search(last.text) is not None
    if abs(line.size - last.size) > 0.1 * last.size or _BULLET.match(line.text):
        return True
    if _key(line.text) in outline or _key(last.text) in outline:
        return True
    if line.bold and not last.bold and ended:
        return True
    # A heading does not fill its last line; bold words that begin a paragraph do.
    if last.bold and not line.bold and display_width(last.text) < 0.75 * usual:
        return True
    if not same_page:
        return ended
    if last.y - line.y > 1.35 * gap or line.y - last.y > gap:  # a wide gap, or the next column
        return ended or line.y < last.y
    return ended and (display_width(last.text) < 0.75 * usual or line.x > last.x + line.size)


def _body_size(lines: Iterable[_Line]) -> float:
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[round(line.size, 1)] += len(line.text)
    return sizes.most_common(1)[0][0]


def _usual_gap(pages: Iterable[list[_Line]]) -> float:
    """Return the usual gap between the lines of a paragraph; 0 if no page has two lines."""
    gaps = [
        above.y - below.y
        for page in pages
        for above, below in itertools.pairwise(page)
        if above.y - below.y > 1
    ]
    return sorted(gaps)[len(gaps) // 4] if gaps else 0.0  # gaps between paragraphs are larger
