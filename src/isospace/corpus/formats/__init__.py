"""Documents: a title, headings and paragraphs, read from a file of any format.

The module of a format has its reader, `read`, which fills a `Draft` from the bytes of a file.
Boilerplate is left out by rules that match only wording without another purpose: copied licences,
tables of contents, and the lines that a site puts around its text.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import PurePath

from isospace.corpus.lines import clean
from isospace.errors import UserError, first_line
from isospace.system.files import MOST_TIMES

MANDOC = "mandoc"
"""Name of the program, and of the Debian package that has it."""

DOCUMENT_FORMATS = {
    "markdown": ((".md", ".markdown"), "markdown-it-py"),
    "html": ((".html", ".htm", ".xhtml"), "selectolax"),
    "rst": ((".rst",), "docutils"),
    "man": ((), MANDOC),  # recognised by the section in the name: `_MAN_PAGE`
    "text": ((".txt",), ""),
    "pdf": ((".pdf",), "pypdf"),
    "word": ((".docx",), "python-docx"),
}
"""Name of the format and of its module -> endings of files, and distribution or program that parses
them. Its version can change the text that is read."""
ENDINGS = {end: name for name, (endings, _) in DOCUMENT_FORMATS.items() for end in endings}

# ls.1, printf.3p, CA.pl.1ssl: the section, and letters that distinguish pages of one name.
# Libraries and old logs (libc.so.6, app.log.1) end in a number too.
_MAN_PAGE = re.compile(r"(?<!\.so)(?<!\.log)\.([1-8][a-z]{0,8}|[1-8]x11|[ln])$", re.IGNORECASE)


def format_of(path: str) -> str | None:
    """Return the format of a file that is not compressed from its name; `None` if not a document.

    >>> list(map(format_of, ("a/b.md", "index.HTML", "man3/printf.3p", "CA.pl.1ssl")))
    ['markdown', 'html', 'man', 'man']
    >>> set(map(format_of, ("README", "libc.so.6", "app.log.1", "v1.10")))
    {None}
    """
    name = PurePath(path)
    if _MAN_PAGE.search(name.name):
        return "man"
    return ENDINGS.get(name.suffix.lower())


def read_document(content: bytes, format: str, encoding: str | None = None) -> Document:
    """Read the content of one file as a document, or raise `UnreadableDocument`."""
    try:
        reader = import_module(f"{__name__}.{format}")  # only now, because parsers load slowly
    except ModuleNotFoundError:
        raise UnreadableDocument(
            f"This format needs {DOCUMENT_FORMATS[format][1]}; install it: "
            "pip install 'isospace[documents]'"
        ) from None
    try:
        draft: Draft = reader.read(content, encoding)
    except UnreadableDocument:
        raise
    except Exception as error:  # a damaged file can fail anywhere in its parser
        kind = type(error).__name__
        raise UnreadableDocument(
            f"It is damaged, or not a file of {format} ({kind}: {first_line(error)})."
        ) from error
    return draft.finish()


TOO_LARGE = f"The unpacked file is more than {MOST_TIMES} times as large. If you trust the file"
"""How the reason of a file that may be a bomb begins."""


class UnreadableDocument(UserError):
    """The reason why a file cannot be parsed; the caller adds the name of the file."""


@dataclass(frozen=True)
class Section:
    """A heading and its paragraphs, up to the next heading of any level.

    The text before the first heading has heading "" and level 0. Paragraphs are on one line without
    markup. Each item of a list is a paragraph; a list of short items only is one paragraph.
    """

    heading: str
    level: int
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """A text with its structure; a heading that is the title does not begin a section."""

    title: str
    sections: tuple[Section, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Kind of what was left out, such as "code blocks" -> number."""
    group: str = ""
    """Documents with the same group are split together."""
    summary_next: tuple[str, str] | None = None
    """Summary and next paragraph of a docstring; the paragraphs include both."""
    language: str = ""
    """ISO code if the language is known; "" if it must be detected."""


LICENCES = "licences"
NAVIGATION = "navigation"

_LICENCE = re.compile(
    r"permission is hereby granted, free of charge"
    r"|permission is granted to (?:make and distribute|copy, distribute)"
    r"|permission to use, copy, modify,? (?:and|and/or) (?:distribute|sell)"
    r"|redistribution and use in source and binary forms"
    r"|redistributions (?:of source code|in binary form) must"
    r"|neither the name of .{1,120} may be used to endorse"
    r"|this software is provided (?:by .{1,80} )?[\"“'‘`]*as is"
    r"|the software is provided [\"“'‘`]*as is"
    r"|the above copyright notice"
    r"|distributed (?:in the hope that it will be useful|on an [\"“'‘`]*as is)"
    r"|(?:re)?distribute it and/or modify it under the terms"
    r"|under the terms of the (?:gnu|apache|mit|bsd|mozilla|artistic|creative commons)\b"
    r"|you should have received a copy of the .{0,40}licen[cs]e"
    r"|licensed under (?:the )?(?:apache|gnu|mit|bsd|mozilla|gpl|lgpl|agpl|creative commons|cc)\b"
    r"|licen[cs]e gpl ?v?[23]|free software: you are free to change and redistribute"
    r"|everyone is permitted to copy and distribute verbatim copies"
    r"|there is no warranty, (?:to the extent permitted|not even for)",
    re.IGNORECASE,
)
# "(c)" alone may be the third item of a list: it needs a year after it, or the word.
_COPYRIGHT = re.compile(
    r"(?:\(c\)\W{0,3})?(?:copyright|©)\W{0,3}(?:copyright|©|\(c\))?\W{0,3}(?:\d{4}|by\b|the\b)"
    r".{0,200}"
    r"|\(c\)\W{0,3}\d{4}.{0,200}"
    r"|.{0,200}\ball rights reserved\W*",
    re.IGNORECASE,
)
_SITE_LINE = re.compile(
    r"(?:edit|view|improve|show)(?: the)? (?:this page|on git(?:hub|lab)|(?:page )?source)\b.{0,40}"
    r"|(?:(?:back|return|go) to(?: the)? (?:top|index|contents)|skip to(?: main)? content)\W*"
    r"|(?:table of contents|contents|on this page|in this article)\W*"
    r"|(?:next|previous|prev|up|home|index|share|print|top)\W*"
    r"|\W*(?:next|previous|prev|up):\s.{0,80}"
    r"|(?:was this (?:page|article) helpful|did you find this (?:page|article) helpful).{0,20}"
    r"|last (?:updated|modified|changed|edited)\b.{0,40}"
    r"|(?:created|built|generated|made|powered|rendered)(?: using| with| by)? "
    r"(?:sphinx|mkdocs|doxygen|docutils|jekyll|hugo|docusaurus|javadoc|texi2html|docbook)\b.{0,60}"
    r"|report (?:a|an) (?:bug|issue)(?: on this page)?\W*"
    r"|generated by .{0,60}",
    re.IGNORECASE,
)
_LICENCE_HEADING = re.compile(
    r"(?:\W|\d)*(?:licen[cs](?:e|es|ing)|copyright(?: notice)?|(?:copyright|author) (?:and|&) "
    r"licen[cs]e|licen[cs]e (?:and|&) copyright)\W*",
    re.IGNORECASE,
)
_CONTENTS_HEADING = re.compile(
    r"(?:\W|\d)*(?:table of contents|contents|on this page|in this article|toc)\W*", re.IGNORECASE
)

LONG_CELL = 100
"""Least number of letters for a table cell to hold text, and not data."""
SHORT_ITEM = 40
"""If all items of a list have fewer characters, they become one paragraph, joined by "; "."""


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
        """Count something that is not prose by its kind, in the plural."""
        self.left_out[what] += count

    def finish(self) -> Document:
        """Return the document without boilerplate, or raise `UnreadableDocument` without text."""
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
            besides = f" besides {', '.join(kinds)}" if kinds else ""
            raise UnreadableDocument(f"It has no text{besides}.")
        return Document(self.title, tuple(sections), counts)

    def _add(self, text: str) -> None:
        if text:
            self.sections[-1][2].append(text)


def is_text(cell: str) -> bool:
    """Return true if a cell of a table is long enough to be text, and not data."""
    return sum(map(len, cell.split())) >= LONG_CELL


def decode(content: bytes, encoding: str | None) -> str:
    r"""Decode the content of a file, and change line ends to `\n`, or raise `UnreadableDocument`.

    A byte order mark overrides `encoding`.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif encoding is None or content.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    try:
        text = content.decode(encoding)
    except (LookupError, UnicodeError) as error:
        raise UnreadableDocument(
            f"It is not {encoding.removesuffix('-sig')} ({first_line(error)}). Convert it, or "
            "name its encoding with `encoding`."
        ) from None
    if "\0" in text:
        raise UnreadableDocument("It is not text: it contains zero bytes.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def paragraph_boilerplate(text: str) -> str | None:
    """Return the name of the count if a paragraph is left out, else `None`.

    >>> paragraph_boilerplate("Redistribution and use in source and binary forms is permitted.")
    'licences'
    >>> paragraph_boilerplate("Edit this page on GitHub"), paragraph_boilerplate("Edit this page.x")
    ('navigation', 'navigation')
    >>> paragraph_boilerplate("Copyright protects the author of a text.") is None
    True
    """
    if _LICENCE.search(text) or _COPYRIGHT.fullmatch(text):
        return LICENCES
    return NAVIGATION if _SITE_LINE.fullmatch(text) else None


def section_boilerplate(heading: str) -> str | None:
    """Return the name of the count if a section is left out by its heading, else `None`.

    >>> section_boilerplate("9. License"), section_boilerplate("Licence servers")
    ('licences', None)
    """
    if _LICENCE_HEADING.fullmatch(heading):
        return LICENCES
    return NAVIGATION if _CONTENTS_HEADING.fullmatch(heading) else None
