"""What a document is: a title, and paragraphs under headings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Section:
    """Paragraphs that stand under one heading."""

    heading: str
    level: int
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """One text with its structure."""

    id: str
    title: str
    sections: tuple[Section, ...]
    links: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    group: str = ""
