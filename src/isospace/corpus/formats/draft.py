"""The draft of a document, which the reader of each format fills."""

from __future__ import annotations

import codecs
from collections import Counter

from isospace.corpus.documents import Document, Section, UnreadableDocument
from isospace.corpus.formats.boilerplate import (
    paragraph_boilerplate,
    section_boilerplate,
)
from isospace.corpus.lines import clean

LONG_CELL = 100
"""Least number of letters for a table cell to hold text, and not data."""
SHORT_ITEM = 40
"""If all items of a list have fewer characters, they become one paragraph, joined by "; "."""

_NO_TEXT = "no text: no paragraph is in it"


class Draft:
    """Title, sections and counts of a document, collected in reading order."""

    def __init__(self) -> None:
        self.title = ""
        self.left_out: Counter[str] = Counter()
        self.sections: list[tuple[str, int, list[str]]] = [("", 0, [])]
        self._items: list[str] = []  # items of the current list

    def heading(self, text: str, level: int) -> None:
        """Begin a section, or set the title if this is the first heading of level 1."""
        self.end_list()
        text = clean(text)
        if not text:
            return
        if not self.title and level == 1:
            self.title = text
        elif text != self.title or len(self.sections) > 1:
            self.sections.append((text, level, []))

    def paragraph(self, text: str) -> None:
        """Add one paragraph, unless it is empty."""
        self.end_list()
        self._add(clean(text))

    def item(self, text: str) -> None:
        """Add an item of a list; consecutive items are one list."""
        text = clean(text)
        if text:
            self._items.append(text)

    def end_list(self) -> None:
        """End the current list, and add its items as one or several paragraphs."""
        if all(len(item) < SHORT_ITEM for item in self._items):
            self._add("; ".join(item.rstrip(",;") for item in self._items))
        else:
            for item in self._items:
                self._add(item)
        self._items = []

    def leave_out(self, what: str, count: int = 1) -> None:
        """Count something that is not prose; `what` is its kind, in the plural."""
        self.left_out[what] += count

    def finish(self, id: str) -> Document:
        """Return the document, without boilerplate.

        Raises:
            UnreadableDocument: no paragraph is left.
        """
        self.end_list()
        sections = []
        hidden: tuple[int, str] | None = None  # level and kind of a section that is left out
        for heading, level, paragraphs in self.sections:
            if hidden and heading and level <= hidden[0]:
                hidden = None
            kind = section_boilerplate(heading)
            if kind and not hidden:
                hidden = level, kind
            kept = []
            for text in paragraphs:
                what = hidden[1] if hidden else paragraph_boilerplate(text)
                if what:
                    self.leave_out(what)
                else:
                    kept.append(text)
            if not hidden and (heading or kept):
                sections.append(Section(heading, level, tuple(kept)))
        counts = {what: count for what, count in sorted(self.left_out.items()) if count}
        if not any(section.paragraphs for section in sections):
            kinds = [*counts, *["headings"] * bool(sections)]
            what = f"no text besides {', '.join(kinds)}" if kinds else _NO_TEXT
            raise UnreadableDocument(f"It has {what}.")
        return Document(id, self.title, tuple(sections), counts)

    def _add(self, text: str) -> None:
        if text:
            self.sections[-1][2].append(text)


def is_text(cell: str) -> bool:
    """Return true if a cell of a table is long enough to be text, and not data."""
    return sum(map(len, cell.split())) >= LONG_CELL


def decode(content: bytes, encoding: str | None) -> str:
    r"""Decode the content of a file, and change line ends to `\n`.

    A byte order mark overrides `encoding`.

    Raises:
        UnreadableDocument: the content is not text in this encoding.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif encoding is None or content.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableDocument(
            f"It is not {encoding.removesuffix('-sig')} at byte {error.start}. Convert it, or "
            "name its encoding with `encoding`."
        ) from None
    except (LookupError, UnicodeError) as error:
        raise UnreadableDocument(
            f"It cannot be decoded ({error}). Name its encoding with `encoding`."
        ) from None
    if "\0" in text:
        raise UnreadableDocument("It is not text: it contains zero bytes.")
    return text.replace("\r\n", "\n").replace("\r", "\n")
