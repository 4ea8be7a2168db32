"""Documents: a title, headings and paragraphs, read from a file of any format.

`read_document` turns the bytes of one file into a `Document`; the readers are in `formats/`. What
is no prose (code, tables, navigation, licences) is left out and counted.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal, get_args

from isospace.errors import UserError

DocumentFormat = Literal["markdown", "html", "rst", "man", "text", "pdf", "word"]
DOCUMENT_FORMATS: tuple[DocumentFormat, ...] = get_args(DocumentFormat)

ENDINGS: dict[str, DocumentFormat] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".rst": "rst",
    ".txt": "text",
    ".pdf": "pdf",
    ".docx": "word",
}
"""Of a file's name in small letters; man pages are told by `_MAN_PAGE`."""

LARGEST = 1 << 28
"""Bytes of a document, unpacked, that are read; a small archive can hold any number of them."""

COMPRESSION = {".gz": "gzip", ".zst": "zstd", ".xz": "xz"}
"""The ending of a file's name -> how it is compressed."""

# ls.1, printf.3p, CA.pl.1ssl: a section, and what sets apart pages of one name.
_MAN_PAGE = re.compile(r"\.([1-8][a-z]{0,8}|[1-8]x11|[ln])$", re.IGNORECASE)


class UnreadableDocument(UserError):
    """A file that cannot be parsed; the message is the reason, and the caller names the file."""


@dataclass(frozen=True)
class Section:
    """What stands under one heading, up to the next of any level.

    Attributes:
        heading: its words; "" for what stands before the first heading.
        level: 1 for the highest, as the format has it; 0 for what stands before the first.
        paragraphs: in order, each on one line without markup. An item of a list is a paragraph;
            a list of nothing but short items is one paragraph.
    """

    heading: str
    level: int
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """A text with its structure.

    Attributes:
        id: as the caller names it, such as a path relative to the folder that was given.
        title: "" where there is none. A heading that is the title opens no section of its own.
        sections: in order, those without a paragraph too.
        links: the targets of links as they are written, without fragments, each once: addresses,
            paths, or names like "ls(1)".
        left_out: what was left out, such as "code blocks", and how many.
        warning: how little of it was read, where that is hardly anything; else "".
        group: what is kept together when documents are split; set by the caller.
        summary_next: a summary and the paragraph after it, of docstrings; they are among the
            paragraphs too.
        language: an ISO code where it is known; "" where it is to be told by the look of the text.
    """

    id: str
    title: str
    sections: tuple[Section, ...]
    links: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    warning: str = ""
    group: str = ""
    summary_next: tuple[str, str] | None = None
    language: str = ""


def format_of(path: str) -> DocumentFormat | None:
    """The format by the name of a file, compressed or not; None where it is no document.

    >>> format_of("docs/index.HTML.gz"), format_of("man3/printf.3p"), format_of("README")
    ('html', 'man', None)
    """
    name = _unpacked(PurePath(path).name)
    if _MAN_PAGE.search(name):
        return "man"
    return ENDINGS.get(PurePath(name).suffix.lower())


def _unpacked(path: str) -> str:
    """The path without the ending of what it is compressed with."""
    inner, ending = posixpath.splitext(path)
    return inner if ending.lower() in COMPRESSION else path


def short_names(path: str) -> set[str]:
    """What a document in this file is called by others, besides the path.

    >>> sorted(short_names("docs/index.html.gz")), sorted(short_names("man1/ls.1"))
    (['docs/index', 'docs/index.html'], ['ls(1)', 'man1/ls'])
    """
    if format_of(path) is None:
        return set()
    unpacked = _unpacked(path)
    names = {unpacked, unpacked.rpartition(".")[0]}
    if page := _MAN_PAGE.search(unpacked):
        names.add(f"{PurePath(unpacked[: page.start()]).name}({page[1]})")
    return names - {path}


def read_document(
    content: bytes, format: DocumentFormat, id: str, encoding: str | None = None
) -> Document:
    """One file's document.

    Args:
        content: its bytes, decompressed.
        format: how it is parsed.
        id: of the document.
        encoding: of a text that is not UTF-8 and does not say what it is; PDF and Word know theirs.

    Raises:
        UnreadableDocument: it is no text in this encoding, is encrypted, broken, has nothing that
            is read as text, ...
    """
    from isospace.corpus.formats import READERS  # the readers import this module

    try:
        draft = READERS[format](content, encoding)
    except RecursionError:
        raise UnreadableDocument("It is nested too deeply to be read.") from None
    return Document(id, *draft.finish())
