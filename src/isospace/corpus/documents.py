"""Documents: a title, headings and paragraphs, read from a file of any format.

Code, tables, navigation and licences are left out and counted. The readers are in `formats/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isospace.errors import UserError
from isospace.system.files import MOST_TIMES

TOO_LARGE = f"The unpacked file is more than {MOST_TIMES} times as large. If you trust the file"
"""How the reason of a file that may be a bomb begins."""


class UnreadableDocument(UserError):
    """The error for a file that cannot be parsed.

    The message is the reason; the caller adds the name of the file.
    """


@dataclass(frozen=True)
class Section:
    """A heading and its paragraphs, up to the next heading of any level.

    Attributes:
        heading: text of the heading; "" for the text before the first heading.
        level: level of the heading, 1 for the highest; 0 for the text before the first heading.
        paragraphs: paragraphs in order, each on one line without markup. Each item of a list is a
            paragraph; a list of short items only is one paragraph.
    """

    heading: str
    level: int
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """A text with its structure.

    Attributes:
        title: title, or "". A heading that is the title does not begin a section.
        sections: sections in order, including those without a paragraph.
        left_out: kind of what was left out, such as "code blocks" -> number.
        group: documents with the same group are split together; set by the caller.
        summary_next: summary and next paragraph of a docstring; the paragraphs include both.
        language: ISO code if the language is known; "" if it must be detected.
    """

    title: str
    sections: tuple[Section, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    group: str = ""
    summary_next: tuple[str, str] | None = None
    language: str = ""
