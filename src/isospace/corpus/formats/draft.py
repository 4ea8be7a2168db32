"""A document while it is read: what every format's reader writes into."""

from __future__ import annotations

import codecs
import re
from collections import Counter

from isospace.corpus.characters import normalise
from isospace.corpus.documents import Section, UnreadableDocument
from isospace.corpus.formats.boilerplate import (
    LICENCES,
    heads_licence,
    paragraph_boilerplate,
    section_boilerplate,
)
from isospace.corpus.lines import folded

SHORT_ITEM = 40
"""A list all of whose items have fewer characters is one paragraph, its items joined by "; "."""

_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f]")


class Draft:
    """Title, sections, links and counts, in the order in which a reader meets them."""

    def __init__(self) -> None:
        self.title = ""
        self.left_out: Counter[str] = Counter()
        self._links: dict[str, None] = {}
        self._sections: list[tuple[str, int, list[str]]] = [("", 0, [])]
        self._items: list[str] = []  # of the list that is being read

    def heading(self, text: str, level: int) -> None:
        """A new section; the first heading of level 1 is the title where there is none yet."""
        self.end_list()
        text = one_line(text)
        if not text:
            return
        if not self.title and level == 1:
            self.title = text
        elif text != self.title or len(self._sections) > 1:
            self._sections.append((text, level, []))

    def paragraph(self, text: str) -> None:
        """One paragraph; an empty text is none."""
        self.end_list()
        self._add(one_line(text))

    def item(self, text: str) -> None:
        """A list's item; those that follow each other are one list."""
        text = one_line(text)
        if text:
            self._items.append(text)

    def end_list(self) -> None:
        """What follows belongs to no list, or to another."""
        if all(len(item) < SHORT_ITEM for item in self._items):
            self._add("; ".join(item.rstrip(",;") for item in self._items))
        else:
            for item in self._items:
                self._add(item)
        self._items = []

    def link(self, target: str) -> None:
        """The target of a link as it is written; its fragment is dropped."""
        path = target.partition("#")[0].strip()
        scheme = path.partition(":")[0].lower()
        if path and scheme not in ("mailto", "javascript", "data", "tel"):
            self._links[path] = None

    def leave_out(self, what: str, count: int = 1) -> None:
        """Count something that is no prose; `what` is in the plural."""
        self.left_out[what] += count

    def finish(self) -> tuple[str, tuple[Section, ...], tuple[str, ...], dict[str, int]]:
        """(title, sections, links, counts), without boilerplate."""
        self.end_list()
        sections = []
        texts = (text for heading, _, below in self._sections for text in (heading, *below) if text)
        licence = heads_licence(self.title or next(texts, ""))  # the file is one
        hidden: tuple[int, str] | None = None  # level and kind of a section left out as a whole
        for heading, level, paragraphs in self._sections:
            if hidden and heading and level <= hidden[0]:
                hidden = None
            kind = section_boilerplate(heading)
            if kind and not hidden:
                hidden = level, kind
            kept = []
            for text in paragraphs:
                what = LICENCES if licence else hidden[1] if hidden else paragraph_boilerplate(text)
                if what:
                    self.left_out[what] += 1
                else:
                    kept.append(text)
            if not (hidden or licence) and (heading or kept):
                sections.append(Section(heading, level, tuple(kept)))
        counts = {what: count for what, count in sorted(self.left_out.items()) if count}
        return self.title, tuple(sections), tuple(self._links), counts

    def _add(self, text: str) -> None:
        if text:
            self._sections[-1][2].append(text)


def one_line(text: str) -> str:
    r"""Return the text normalised, without control characters, and `folded`.

    >>> one_line("two\n  lines,\u00a0soft\u00adened"), one_line("日本\n語")
    ('two lines, softened', '日本語')
    """
    return folded(normalise(_CONTROL.sub("", text)))


def decode(content: bytes, encoding: str | None) -> str:
    r"""The text of a file with `\n` at the ends of lines; a byte order mark comes first.

    Raises:
        UnreadableDocument: it is no text in this encoding.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif encoding is None or content.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableDocument(
            f"It is not {encoding.removesuffix('-sig')} at byte {error.start}. "
            "Convert it, or name its encoding with `encoding`."
        ) from None
    except (LookupError, UnicodeError) as error:
        raise UnreadableDocument(f"It cannot be decoded ({error}). See `encoding`.") from None
    if "\0" in text:
        raise UnreadableDocument("It is no text: it has characters of code 0.")
    return text.replace("\r\n", "\n").replace("\r", "\n")
