"""The formats of documents, each with a reader that imports its library when called."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import NamedTuple

from isospace.corpus.documents import Document, Draft, UnreadableDocument
from isospace.corpus.formats.html import read_html
from isospace.corpus.formats.man import read_man
from isospace.corpus.formats.markdown import read_markdown
from isospace.corpus.formats.pdf import read_pdf
from isospace.corpus.formats.rst import read_rst
from isospace.corpus.formats.text import read_text
from isospace.corpus.formats.word import read_word


class Format(NamedTuple):
    """A format of documents.

    Attributes:
        read: reader that turns a file's content and the user's encoding into a draft.
        endings: endings of the files' names, in small letters.
    """

    read: Callable[[bytes, str | None], Draft]
    endings: tuple[str, ...]


DOCUMENT_FORMATS: dict[str, Format] = {
    "markdown": Format(read_markdown, (".md", ".markdown")),
    "html": Format(read_html, (".html", ".htm", ".xhtml")),
    "rst": Format(read_rst, (".rst",)),
    "man": Format(read_man, ()),  # recognised by the section in the name: `_MAN_PAGE`
    "text": Format(read_text, (".txt",)),
    "pdf": Format(read_pdf, (".pdf",)),
    "word": Format(read_word, (".docx",)),
}
ENDINGS = {ending: name for name, row in DOCUMENT_FORMATS.items() for ending in row.endings}

# ls.1, printf.3p, CA.pl.1ssl: the section, and letters that distinguish pages of one name.
# Libraries and old logs (libc.so.6, app.log.1) end in a number too.
_MAN_PAGE = re.compile(r"(?<!\.so)(?<!\.log)\.([1-8][a-z]{0,8}|[1-8]x11|[ln])$", re.IGNORECASE)


def format_of(path: str) -> str | None:
    """Return the format of a file that is not compressed from its name; `None` if not a document.

    >>> format_of("docs/index.HTML"), format_of("man3/printf.3p"), format_of("README")
    ('html', 'man', None)
    """
    name = PurePath(path)
    if _MAN_PAGE.search(name.name):
        return "man"
    return ENDINGS.get(name.suffix.lower())


def read_document(content: bytes, format: str, encoding: str | None = None) -> Document:
    """Read the content of one file as a document.

    Raises:
        UnreadableDocument: the content is damaged, encrypted, not in this encoding, or without
            text.
    """
    try:
        draft = DOCUMENT_FORMATS[format].read(content, encoding)
    except RecursionError:
        raise UnreadableDocument(
            "Its elements are nested too deeply. Simplify it, or convert it to plain text."
        ) from None
    return draft.finish()
