"""Documents from files. A row or a line of text is a document of one or a few passages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby

from isospace.config import CorpusConfig
from isospace.corpus import records
from isospace.corpus.docstrings import DOCSTRINGS, read_docstrings
from isospace.corpus.formats import Document, Section, UnreadableDocument, read_document
from isospace.corpus.groups import group_key
from isospace.corpus.records import GENERATED_BY, Column, Record
from isospace.corpus.sources import FORMATS, Source, read_bytes
from isospace.errors import UserError

GENERATED_ROWS = "generated rows left out"
"""Name of the count of rows that a language model wrote. They may train (`queries`), but a part of
a corpus is for evaluation."""
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


def columns(config: CorpusConfig) -> list[Column]:
    """Return the columns to read: texts, columns that settings name, and `GENERATED_BY`."""
    found = [Column(name, "`columns`") for name in config.columns]
    found = found or [Column(config.column, "`column`")]
    if config.title_column is not None:
        found.append(Column(config.title_column, "`title_column`"))
    for setting in ("document_column", "group", "label_column"):
        if (name := getattr(config, setting)) is not None:
            found.append(Column(name, f"`{setting}`", text=False))
    mark = Column(GENERATED_BY, "", text=False, optional=True)
    return [*found, mark]


def own_rows(source: Source, columns: Sequence[Column], counts: dict[str, int]) -> Iterator[Record]:
    """Yield (line, values) of rows that no language model wrote; count the other rows."""
    for line, (*values, generated) in records.read_records(source, columns):
        if generated:
            counts[GENERATED_ROWS] = counts.get(GENERATED_ROWS, 0) + 1
        else:
            yield line, tuple(values)


def read_documents(
    sources: Sequence[Source],
    config: CorpusConfig,
    counts: dict[str, int],
    unreadable: dict[str, UserError],
) -> Iterator[Document]:
    """Yield the documents of the files in order.

    `unreadable` has name -> error of files to leave out, and receives those of documents.

    Raises:
        UserError: the only file cannot be read, or a row of any file is wrong.
    """
    for source in sources:
        if source.name in unreadable:
            continue
        documents: Iterable[Document]
        if source.format in FORMATS:
            documents = _rows(source, config, counts)
        elif source.format == DOCSTRINGS:
            documents = read_docstrings(source.name)
        else:
            try:
                documents = [read_file(source)]
            except UnreadableDocument as error:
                if len(sources) == 1:
                    raise
                unreadable[source.name] = error
                continue
        for document in documents:
            for what, count in document.left_out.items():
                counts[f"{what} left out"] = counts.get(f"{what} left out", 0) + count
            yield document


def read_file(source: Source) -> Document:
    """Read a file as one document, or raise `UnreadableDocument` with file and reason."""
    try:
        content = read_bytes(source)
        if not content.strip():
            raise UnreadableDocument("It is empty.")
        # None: UTF-8, unless the file declares another encoding, as HTML may. Valid UTF-8 is read
        # as UTF-8 even if the user named another encoding.
        encoding = None if source.encoding == "utf-8" or _is_utf_8(content) else source.encoding
        return read_document(content, source.format, encoding)
    except UnreadableDocument as error:
        raise UnreadableDocument(f"{source.name}: {error}") from error


def _is_utf_8(content: bytes) -> bool:
    """Return true if a text is valid UTF-8 with characters beyond ASCII."""
    with suppress(UnicodeDecodeError):
        return not content.decode().isascii()
    return False


def _rows(source: Source, config: CorpusConfig, counts: dict[str, int]) -> Iterator[Document]:
    """Yield a document for each row, or for consecutive rows of one `document_column`."""
    titled = config.title_column is not None

    def document(row: Record) -> str | int:
        line, values = row
        named = config.document_column is not None and group_key(values[1 + titled])
        return named or line

    for _, rows in groupby(own_rows(source, columns(config), counts), key=document):
        parts = [values for _, values in rows]
        title = (parts[0][1] or "") if titled else ""
        group = group_key(parts[0][-1]) if config.group is not None else ""
        yield row_document("\n\n".join(values[0] or "" for values in parts), title, group)


def row_document(text: str, title: str = "", group: str = "") -> Document:
    """Return a row as a document of one section; blank lines part its paragraphs."""
    return Document(title, (Section("", 0, tuple(_BLANK_LINE.split(text))),), group=group)
