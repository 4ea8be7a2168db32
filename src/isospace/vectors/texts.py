"""Texts to encode, streamed from files, with ids and other columns if the files have them.

Each row of the input is a row of the output, and so is each cleaned passage of a document. An empty
line or a missing value is the empty text and gets its vector. An index may also cut long rows into
passages.
"""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from isospace.config import Reading
from isospace.corpus import records
from isospace.corpus.corpus import docstring_passages
from isospace.corpus.docstrings import DOCSTRINGS
from isospace.corpus.formats import DOCUMENT_FORMATS, UnreadableDocument
from isospace.corpus.passages import passages_of
from isospace.corpus.reading import read_file, row_document
from isospace.corpus.records import Column
from isospace.corpus.sources import Source, find_sources, require_columns
from isospace.errors import UserError
from isospace.system.unicode import normalise, without_surrogates

logger = logging.getLogger(__name__)


class TextRow(NamedTuple):
    """A row of a file, a passage of a row, or a passage of a document.

    Attributes:
        key: id of the row, or "".
        values: values of the columns to keep; `None` in files without columns.
        number: number of the row in its file, or of the passage in its document, from 1.
        passage: number of the passage in its row, from 1, of `passages`.
    """

    text: str
    key: str
    values: tuple[Any, ...]
    number: int
    passage: int = 1
    passages: int = 1


@dataclass(frozen=True)
class Texts:
    """The rows of some files in order; every iteration reads the files again.

    `unread` receives the names of documents that cannot be read, `docstrings` their passages, since
    reading all installed packages takes a minute.
    """

    sources: Sequence[Source]
    reading: Reading
    keep: tuple[str, ...]
    cut_rows: bool
    unread: set[str] = field(default_factory=set)
    docstrings: dict[str, list[str]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[TextRow]:
        for _, rows in self.files():
            yield from rows

    def files(self) -> Iterator[tuple[Source, Iterator[TextRow]]]:
        """Yield the files, each with its rows, which can be read once."""
        for source in self.sources:
            if source.format == DOCSTRINGS:
                yield source, self._docstrings(source)
            elif source.format in DOCUMENT_FORMATS:
                yield source, self._passages(source)
            else:
                yield source, self._rows(source)

    def scan(self) -> tuple[int, str]:
        """Return the number of rows and a hash; this reads all files, so that errors come first."""
        content = blake2b(digest_size=16)
        count = sum(1 for _ in self.hashed(content))
        return count, content.hexdigest()

    def hashed(self, content: blake2b) -> Iterator[TextRow]:
        """Yield the rows, and add each to a hash."""
        for row in self:
            for part in (row.text, row.key):
                encoded = part.encode()
                content.update(len(encoded).to_bytes(8, "little") + encoded)
            yield row

    @property
    def columns(self) -> list[Column]:
        """Columns to read from a file: texts, columns to keep, titles, ids."""
        columns = [Column(self.reading.column, "`column`")]
        columns += [Column(name, "`keep`", text=False, required=False) for name in self.keep]
        if self.reading.title_column is not None:
            columns.append(Column(self.reading.title_column, "`title_column`"))
        if self.reading.id_column is not None:
            columns.append(Column(self.reading.id_column, "`id_column`", text=False))
        return columns

    def _rows(self, source: Source) -> Iterator[TextRow]:
        kept = 1 + len(self.keep)
        rows = records.read_records(source, self.columns)
        for number, (_, values) in enumerate(rows, 1):
            title = None if self.reading.title_column is None else values[kept]
            key = "" if self.reading.id_column is None else _key(values[-1])
            parts = self._parts(_text(values[0] or ""), _text(title or "").strip())
            for passage, part in enumerate(parts, 1):
                yield TextRow(part, key, values[1:kept], number, passage, len(parts))

    def _docstrings(self, source: Source) -> Iterator[TextRow]:
        if source.name not in self.docstrings:
            words = self.reading.passage_words
            self.docstrings[source.name] = docstring_passages(source.name, words)
        for number, passage in enumerate(self.docstrings[source.name], 1):
            yield TextRow(passage, "", (None,) * len(self.keep), number)

    def _parts(self, text: str, title: str) -> list[str]:
        """Return a row's text, or its passages, each with the title before it."""
        words, parts = self.reading.passage_words, [text]
        if self.cut_rows and words is not None:
            passages = [passage for _, passage in passages_of(row_document(text), words)]
            if len(passages) > 1:
                parts = passages
        return [f"{title} {part}" if part.strip() else title for part in parts] if title else parts

    def _passages(self, source: Source) -> Iterator[TextRow]:
        """Yield the passages of a document; warn once if it cannot be read."""
        try:
            document = read_file(source)
        except UnreadableDocument as error:
            if source.name not in self.unread:  # files are read again
                logger.warning("not read: %s", error)
            self.unread.add(source.name)
            return
        passages = passages_of(document, self.reading.passage_words)
        for number, (_, passage) in enumerate(passages, 1):
            yield TextRow(passage, "", (None,) * len(self.keep), number)


@contextmanager
def open_texts(
    inputs: Sequence[str], reading: Reading, keep: tuple[str, ...] = (), cut_rows: bool = False
) -> Iterator[Texts]:
    """Find the files and check the beginning of each; standard input is kept while this is open.

    A file of rows in a folder is left out if its beginning cannot be read. `keep` names other
    columns to read. With `cut_rows` long rows are cut into passages.
    """
    with tempfile.TemporaryDirectory(prefix="isospace-") as spool:
        sources = find_sources(inputs, Path(spool), reading.encoding, reading.layout)
        without_columns = [source.name for source in sources if not source.has_columns]
        if reading.id_column is not None and without_columns:
            raise UserError(
                f"`id_column` {reading.id_column}: {without_columns[0]} has no columns. "
                "Expected csv, tsv, jsonl or parquet files"
            )
        require_columns(sources, inputs, "title_column", reading.title_column)
        texts = Texts(sources, reading, keep, cut_rows)
        unreadable = records.unreadable(sources, texts.columns)
        for error in unreadable.values():
            logger.warning("not read: %s", error)
        readable = [source for source in sources if source.name not in unreadable]
        yield replace(texts, sources=readable)


def _key(value: Any) -> str:
    """Return an id as text; empty if it is missing or NaN."""
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else without_surrogates(str(value).rstrip("\r\n"))


def _text(raw: str) -> str:
    return without_surrogates(normalise(raw.rstrip("\r\n")))
