"""Files -> documents. A row or a line of text is one of a single passage, or of a few."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

from isospace.config import CorpusConfig, Layout
from isospace.corpus import records, streams
from isospace.corpus.documents import Document, Section, UnreadableDocument
from isospace.corpus.formats import DOCUMENT_FORMATS, read_document
from isospace.corpus.formats.text import txt_layout
from isospace.corpus.groups import group_key
from isospace.corpus.records import GENERATED_BY, Column
from isospace.corpus.sources import STANDARD_INPUT, find_sources
from isospace.corpus.streams import Source
from isospace.errors import UserError

FOLDER = "folder"
"""The `group` of documents that belong together where they are files of one folder."""
TXT_LINES, TXT_PARAGRAPHS = "txt files with lines", "txt files with paragraphs"
"""Counts of how txt files are read."""
GENERATED_ROWS = "generated rows left out"
"""Count of rows that a language model wrote. Parts of a corpus measure; `queries` trains alone."""
_TXT = {"txt": TXT_LINES, "text": TXT_PARAGRAPHS}
HARDLY_READ = "documents hardly read"
"""Count of documents whose text was left out but for a small part."""
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_LOOKED_AT = 400
"""Lines of a text that say whether it has paragraphs."""


class HardlyRead(UserError):
    """A document whose text was left out but for a small part, which was read."""


def find(files: Iterable[str], spool: Path, config: CorpusConfig) -> list[Source]:
    """Find the files to read, each with its format; that of a txt is told by its look."""
    delimiter = "\t" if config.delimiter == r"\t" else config.delimiter
    if config.columns:
        return find_sources(files, spool, config.encoding, delimiter)
    sources = find_sources(files, spool, config.encoding, delimiter, documents=True)
    return with_layout(sources, config.layout)


def with_layout(sources: Sequence[Source], layout: Layout | None) -> list[Source]:
    """Decide for each txt whether paragraphs or lines are read, by default by its look.

    Beside other files one that cannot be looked at, or that has nothing in it, is a document, which
    its reader refuses; where lines are wanted it is left to the reader of rows.

    Raises:
        UserError: the only file cannot be read, or one that was named whose lines are wanted.
    """
    found = []
    for source in sources:
        try:
            found.append(_with_layout(source, layout))
        except UserError:
            if len(sources) == 1 or (layout == "lines" and not source.in_folder):
                raise
            found.append(source if layout == "lines" else replace(source, format="text"))
    return found


def _with_layout(source: Source, layout: Layout | None) -> Source:
    if source.format != "txt":
        return source
    if source.in_folder and streams.is_blank(source):
        # Such files lie about in folders; one that is named by itself is a mistake.
        return replace(source, format="text")
    source = streams.with_marked_encoding(source)
    if layout is None:
        rows = islice(records.read_records(source, [Column("", "")]), _LOOKED_AT)
        layout = txt_layout("\n".join(row.values[0] for row in rows))
    return source if layout == "lines" else replace(source, format="text")


def columns(config: CorpusConfig) -> list[Column]:
    """Return the columns to read: of texts, those that settings name, and `GENERATED_BY`."""
    found = [Column(name, "`columns`") for name in config.columns]
    found = found or [Column(config.column, "`column`")]
    if config.title_column is not None:
        found.append(Column(config.title_column, "`title_column`"))
    for setting in ("document_column", "group", "label_column"):
        if (name := getattr(config, setting)) is not None:
            found.append(Column(name, f"`{setting}`", text=False))
    mark = Column(GENERATED_BY, "", text=False, required=False, optional=True)
    return [*found, mark]


def own_rows(
    source: Source, columns: Sequence[Column], counts: dict[str, int]
) -> Iterator[tuple[str, int, tuple[Any, ...]]]:
    """Yield file, line and values of the rows that no language model wrote; count the others."""
    for file, line, (*values, generated) in records.read_records(source, columns):
        if generated:
            counts[GENERATED_ROWS] = counts.get(GENERATED_ROWS, 0) + 1
        else:
            yield file, line, tuple(values)


def left_out(
    sources: Sequence[Source], columns: Sequence[Column], strict: bool, whole: bool = False
) -> dict[str, UserError]:
    """Name -> why a file of rows that cannot be read is left out.

    With `strict` none is left out; with `whole` files of folders are read to their ends.

    Raises:
        UserError: see `records.unreadable`; with `strict` for any file.
    """
    unreadable = records.unreadable(sources, columns, whole)
    if unreadable and strict:
        raise not_left_out(next(iter(unreadable.values())))
    return unreadable


def not_left_out(error: UserError) -> UserError:
    """Return the error for an unreadable file where `strict` is set."""
    return UserError(f"{error} Leave it out, or read without `strict`")


def places(sources: Sequence[Source]) -> list[str | None]:
    """Return each document's path below the folder that has all; `None` for files of rows.

    Standard input is in no folder: its copy is in another each time.
    """
    documents = [source for source in sources if source.format in DOCUMENT_FORMATS]
    folders = [_path(source).parent for source in documents if source.name != STANDARD_INPUT]
    root = os.path.commonpath(folders) if folders else ""
    return [_place(source, root) for source in sources]


def _place(source: Source, root: str) -> str | None:
    if source.format not in DOCUMENT_FORMATS:
        return None
    if source.name == STANDARD_INPUT:
        return STANDARD_INPUT
    return Path(os.path.relpath(_path(source), root)).as_posix()


def _path(source: Source) -> Path:
    """Return where a document is, however its folder is spelled; of a URL its place in the store.

    The file itself may be a link: its name and its neighbours are those of the link.
    """
    in_store = source.name.partition("://")[2]
    if in_store:
        return Path("/", in_store)
    return Path(os.path.realpath(source.path.parent), source.path.name)


def read_documents(
    sources: Sequence[Source],
    config: CorpusConfig,
    counts: dict[str, int],
    unreadable: dict[str, UserError],
    scratch: Path,
) -> Iterator[Document]:
    """Yield the documents of the files in order.

    `unreadable` receives the names of the files that were left out, and why.

    Raises:
        UserError: a file of rows that was named, or the only file, cannot be read; with `strict`
            any file.
    """
    unreadable |= records.unreadable(sources, columns(config))
    for source, place in zip(sources, places(sources), strict=True):
        if source.name in unreadable:
            continue
        try:
            if place is None:
                rows = _rows(source, config, counts)
                if config.document_column is not None:
                    rows = _joined(rows)
                in_folder = source.in_folder and len(sources) > 1
                yield from _whole(rows, scratch) if in_folder else rows
            else:
                document = read_file(source, place)
                if document.warning:
                    counts[HARDLY_READ] = counts.get(HARDLY_READ, 0) + 1
                    unreadable[source.name] = hardly_read(source, document, config.strict)
                yield _counted(document, config, counts)
        except UserError as error:
            if len(sources) == 1 or (place is None and not source.in_folder):
                raise
            if config.strict:
                raise not_left_out(error) from error
            unreadable[source.name] = error
            continue
        if read_as := _TXT.get(source.format):
            counts[read_as] = counts.get(read_as, 0) + 1


def _counted(document: Document, config: CorpusConfig, counts: dict[str, int]) -> Document:
    """Return a file's document with its group; `counts` receives what was left out."""
    for what, count in document.left_out.items():
        counts[f"{what} left out"] = counts.get(f"{what} left out", 0) + count
    folder = (os.path.dirname(document.id) or ".") if config.group == FOLDER else ""
    return replace(document, group=folder)


def read_file(source: Source, id: str) -> Document:
    """Return the document that a file is.

    Raises:
        UnreadableDocument: why it cannot be read, and which file it is.
    """
    try:
        content = streams.read_bytes(source)
        if not content.strip():
            raise UnreadableDocument("It is empty.")
        # UTF-8 is what is read where a file does not say, as HTML may, that it is another. What is
        # UTF-8 stays so beside files in the encoding that the user named.
        encoding = None if source.encoding == "utf-8" or _is_utf_8(content) else source.encoding
        return read_document(content, source.format, id, encoding)
    except UnreadableDocument as error:
        raise UnreadableDocument(f"{source.name}: {error}") from error


def _is_utf_8(content: bytes) -> bool:
    """Tell whether a text has characters beyond ASCII, and all of them as UTF-8 has them."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not content.isascii()


def hardly_read(source: Source, document: Document, strict: bool) -> HardlyRead:
    """Return what is said of a document of which hardly anything was read.

    Raises:
        UserError: it, with `strict`.
    """
    error = HardlyRead(f"{source.name}: {document.warning}")
    if strict:
        raise not_left_out(error)
    return error


def is_unread(unreadable: Mapping[str, UserError], source: Source) -> bool:
    """Tell whether nothing of a file was read."""
    error = unreadable.get(source.name)
    return error is not None and not isinstance(error, HardlyRead)


def _whole(rows: Iterable[Document], scratch: Path) -> Iterator[Document]:
    """Yield the rows of a file; none where one of them cannot be read.

    They wait in a file, so that neither is the user's read twice nor are they held in memory.
    """
    with tempfile.TemporaryFile("w+", encoding="ascii", dir=scratch) as kept:
        for row in rows:
            [section] = row.sections
            kept.write(json.dumps([row.id, row.title, section.paragraphs, row.group]) + "\n")
        kept.seek(0)
        for line in kept:
            id, title, paragraphs, group = json.loads(line)
            yield row_document(id, title, paragraphs, group)


def _joined(rows: Iterable[Document]) -> Iterator[Document]:
    """Join consecutive rows of one id into one document with the first one's title."""
    for id, parts in groupby(rows, key=lambda row: row.id):
        first, *others = parts
        paragraphs = [part.sections[0].paragraphs for part in (first, *others)]
        yield row_document(id, first.title, list(chain.from_iterable(paragraphs)), first.group)


def _rows(source: Source, config: CorpusConfig, counts: dict[str, int]) -> Iterator[Document]:
    """Yield a document for each row; id and group are what their columns say."""
    for file, line, values in own_rows(source, columns(config), counts):
        title = (values[1] or "") if config.title_column is not None else ""
        group = group_key(values[-1]) if config.group is not None else ""
        id = f"{file}:{line}"
        if config.document_column is not None:  # what stands in that column may be a number
            id = group_key(values[1 + (config.title_column is not None)]) or id
        yield row_document(id, title, paragraphs_of(values[0] or ""), group)


def paragraphs_of(text: str) -> list[str]:
    """Split a row's text at blank lines."""
    return _BLANK_LINE.split(text)


def row_document(id: str, title: str, paragraphs: Sequence[str], group: str = "") -> Document:
    """Return a row as a document of one section."""
    return Document(id, title, (Section("", 0, tuple(paragraphs)),), group=group)
