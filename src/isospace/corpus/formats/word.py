"""Word documents (.docx), read by python-docx; styles mark titles, headings and lists."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import docx
from docx.document import Document
from docx.table import Table
from docx.text.paragraph import Paragraph

from isospace.corpus.formats import NAVIGATION, TOO_LARGE, Draft, UnreadableDocument, is_text
from isospace.corpus.lines import clean
from isospace.system.files import most_unpacked

_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_CODE = re.compile(r"html preformatted|macro text|plain text|.*\bcode\b.*|source.*", re.IGNORECASE)
_CONTENTS = re.compile(r"toc\b.*|table of (?:figures|contents|authorities)|index \d", re.IGNORECASE)
_COUNTED = {
    ".//w:footnoteReference | .//w:endnoteReference": "footnotes",
    ".//m:oMathPara": "formulas",
    ".//w:txbxContent[not(ancestor::*[local-name()='Fallback'])]": "text boxes",
}
"""XPath of parts that are left out of their paragraph -> name of their count."""


def read(content: bytes, encoding: str | None) -> Draft:
    """Read Word; the title is text of style Title, the file's property or the first Heading 1."""
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        size = sum(part.file_size for part in parts.infolist())
    if size > most_unpacked(len(content)):
        raise UnreadableDocument(f"{TOO_LARGE}, save it again in a word processor, or as text.")
    document = docx.Document(io.BytesIO(content))
    named = clean(document.core_properties.title or "")
    return _draft(list(_read(document, document.element.body)), named)


def _read(document: Document, above: Any) -> Iterator[Paragraph | Table]:
    """Yield paragraphs and data tables; a table with text in a cell is replaced by its content."""
    for block in _blocks(document, above):
        if isinstance(block, Table) and any(
            is_text(_words(cell)) for cell in block._tbl.iter("{*}tc")
        ):
            yield from _read(document, block._tbl)
        else:
            yield block


def _blocks(document: Document, above: Any) -> Iterator[Paragraph | Table]:
    """Yield paragraphs and tables in order, including those in content controls."""
    for block in above.xpath(".//w:p | .//w:tbl"):
        if block.xpath("(ancestor::w:p | ancestor::w:tbl)[last()]") in ([], [above]):
            kind = Table if block.tag.endswith("}tbl") else Paragraph
            yield kind(block, document)


def _words(element: Any) -> str:
    return "".join(run.text or "" for run in element.iter("{*}t"))


def _text(paragraph: Paragraph) -> str:
    """Return a paragraph's text with tracked changes accepted, without text boxes."""
    runs = paragraph._p.xpath(".//w:r[not(ancestor::w:moveFrom)][not(ancestor::w:txbxContent)]")
    return "".join(run.text for run in runs)


def _draft(blocks: list[Paragraph | Table], named: str) -> Draft:
    draft = Draft()
    draft.title = "" if named == "Word Document" else named  # default title of python-docx
    titles = [_text(block) for block in blocks if isinstance(block, Paragraph) and _is_title(block)]
    draft.title = next(filter(None, map(clean, titles)), draft.title)
    numbering = None  # numbering of the previous paragraph
    for block in blocks:
        if isinstance(block, Table):
            draft.leave_out("tables")
        elif clean(_text(block)) != draft.title or not _is_title(block):
            before, numbering = numbering, _numbering(block)
            if numbering != before:  # another list may follow directly
                draft.end_list()
            _add(draft, block)
    return draft


def _add(draft: Draft, paragraph: Paragraph) -> None:
    style = _style(paragraph)
    heading = _HEADING.fullmatch(style)
    for path, what in _COUNTED.items():
        draft.leave_out(what, len(paragraph._p.xpath(path)))
    if heading:
        draft.heading(_text(paragraph), int(heading[1]))
    elif _CONTENTS.fullmatch(style):
        draft.leave_out(NAVIGATION)
    elif _CODE.fullmatch(style):
        draft.leave_out("code blocks")
    elif _numbering(paragraph) is not None or style.startswith("List"):
        draft.item(_text(paragraph))
    else:
        draft.paragraph(_text(paragraph))


def _numbering(paragraph: Paragraph) -> str | None:
    """Return the number of the list that has a paragraph as an item, or `None`."""
    if not paragraph._p.xpath("./w:pPr/w:numPr"):
        return None
    return str(next(iter(paragraph._p.xpath("./w:pPr/w:numPr/w:numId/@w:val")), ""))


def _style(paragraph: Paragraph) -> str:
    return (paragraph.style.name if paragraph.style else None) or ""


def _is_title(paragraph: Paragraph) -> bool:
    return _style(paragraph) == "Title"
