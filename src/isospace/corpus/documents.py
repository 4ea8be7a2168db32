"""Documents: a title, headings and paragraphs, read from a file of any format.

What is no prose (code, tables, navigation, licences) is left out and counted. The readers are in
`formats/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isospace.errors import UserError

LARGEST = 1 << 28
"""Bytes of a document, unpacked, that are read; a small archive can hold any number of them."""


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
