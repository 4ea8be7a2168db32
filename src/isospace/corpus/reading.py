"""Files -> documents. A row or a line of text is one of a single passage, or of a few."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence

from isospace.config import CorpusConfig
from isospace.corpus import records
from isospace.corpus.documents import Document, Section
from isospace.corpus.groups import group_key
from isospace.corpus.records import Column, Source

logger = logging.getLogger(__name__)

_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


def columns(config: CorpusConfig) -> list[Column]:
    """What is read of a file that has columns: the text, then title and group where named."""
    found = [Column(config.column, "`column`")]
    if config.title_column is not None:
        found.append(Column(config.title_column, "`title_column`"))
    if config.group is not None:
        found.append(Column(config.group, "`group`", text=False))
    return found


def read_documents(
    sources: Sequence[Source], config: CorpusConfig, counts: dict[str, int]
) -> Iterator[Document]:
    """The documents of the files in order; `counts` receives what was left out of them."""
    for source in sources:
        yield from _rows(source, config)


def _rows(source: Source, config: CorpusConfig) -> Iterator[Document]:
    """A document of each row; the group is what its column says."""
    for file, line, values in records.read_records(source, columns(config)):
        title = (values[1] or "") if config.title_column is not None else ""
        group = (group_key(values[-1]) or "") if config.group is not None else ""
        paragraphs = tuple(_BLANK_LINE.split(values[0] or ""))
        yield Document(f"{file}:{line}", title, (Section("", 0, paragraphs),), group=group)
