"""Texts to encode, streamed from files, with ids and other columns where the files have some.

A row of the input is a row of the output: an empty line is the empty text and gets its vector, and
so does a missing value, which is counted. Nothing is cleaned or dropped; the line's end and halves
of surrogate pairs, which are no text, are all that is changed. Of a document every passage is a
row, cleaned. Only docstrings are no file: their passages are those of a corpus, which has each
once.
"""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from isospace.config import CorpusConfig, Layout
from isospace.corpus import records
from isospace.corpus.corpus import load_corpus
from isospace.corpus.docstrings import is_docstrings
from isospace.corpus.documents import DOCUMENT_FORMATS, UnreadableDocument
from isospace.corpus.reading import read_file, with_layout
from isospace.corpus.records import Column
from isospace.corpus.sources import Source, find_sources
from isospace.corpus.staging import passages_of
from isospace.errors import UserError
from isospace.system.cache import cache_folder
from isospace.system.unicode import without_surrogates

logger = logging.getLogger(__name__)


class TextRow(NamedTuple):
    """A row of a file.

    Attributes:
        text: to encode.
        key: its id, "" where there is none.
        values: of the columns to keep: text in csv and tsv, none in files without columns, else as
            the file has them.
        missing: where the row stands ("a.parquet:7") if it has a null in place of its text.
        missing_key: the same if it has none in place of its id, where ids are read.
    """

    text: str
    key: str
    values: tuple[Any, ...]
    missing: str | None = None
    missing_key: str | None = None


class TextFile(NamedTuple):
    """A file, or the docstrings.

    Attributes:
        name: what messages call it.
        format: of a `Source`.
        rows: what it has; they can be read once.
        unread: why it cannot be read, where that was found when its rows were asked for.
    """

    name: str
    format: str
    rows: Iterator[TextRow]
    unread: list[str]


class RowsSeen:
    """Number and hash of the rows seen so far.

    Attributes:
        rows: how many.
        missing: how many of them have a null in place of their text.
        first_missing: where the first of those stands.
        missing_keys: how many have no id, where ids are read.
        first_missing_key: where the first of those stands.
    """

    def __init__(self) -> None:
        self.rows, self.missing, self.missing_keys = 0, 0, 0
        self.first_missing: str | None = None
        self.first_missing_key: str | None = None
        self._content = blake2b(digest_size=16)

    def noting(self, rows: Iterable[TextRow]) -> Iterator[TextRow]:
        """The same rows, each seen as it comes."""
        for row in rows:
            self.add(row)
            yield row

    def add(self, row: TextRow) -> None:
        """See the next row."""
        self.rows += 1
        if row.missing is not None:
            self.missing += 1
            self.first_missing = self.first_missing or row.missing
        if row.missing_key is not None:
            self.missing_keys += 1
            self.first_missing_key = self.first_missing_key or row.missing_key
        for part in (row.text, row.key):
            encoded = part.encode()
            self._content.update(len(encoded).to_bytes(8, "little") + encoded)

    @property
    def digest(self) -> str:
        """A hash of texts and ids, in hexadecimal digits."""
        return self._content.hexdigest()


@dataclass(frozen=True)
class Texts:
    """The rows of some files in order; every iteration reads the files again.

    Attributes:
        docstrings: the rows begin with the passages of these, as `corpus` names docstrings.
        column: holds the texts, where a file has columns.
        id_column: holds the ids, `None` for no ids.
        keep: other columns that are read.
    """

    sources: Sequence[Source]
    docstrings: tuple[str, ...]
    column: str
    id_column: str | None
    keep: tuple[str, ...] = ()
    passage_words: int | None = CorpusConfig.passage_words

    def __iter__(self) -> Iterator[TextRow]:
        for file in self.files():
            yield from file.rows

    def files(self) -> Iterator[TextFile]:
        """The files, each with its rows."""
        for name in self.docstrings:
            settings = CorpusConfig(corpus=(name,), passage_words=self.passage_words)
            corpus = load_corpus(settings, cache_folder())
            nothing = (None,) * len(self.keep)
            passages = (TextRow(corpus[row], "", nothing) for row in corpus.passages)
            yield TextFile(name, "txt", passages, [])
        for source in self.sources:
            is_document = source.format in DOCUMENT_FORMATS
            unread: list[str] = []
            rows = self._passages(source, unread) if is_document else self._rows(source)
            yield TextFile(source.name, source.format, rows, unread)

    def scan(self) -> RowsSeen:
        """Count and hash the rows; reads everything once, so that errors come first."""
        seen = RowsSeen()
        for row in self:
            seen.add(row)
        return seen

    @property
    def columns(self) -> list[Column]:
        """What is read of a file that has columns: texts, then what to keep, then ids."""
        columns = [Column(self.column, "`column`")]
        columns += [Column(name, "`keep`", text=False, required=False) for name in self.keep]
        if self.id_column is not None:
            columns.append(Column(self.id_column, "`id_column`", text=False))
        return columns

    def _rows(self, source: Source) -> Iterator[TextRow]:
        for record in records.read_records(source, self.columns):
            text = record.values[0]
            key = "" if self.id_column is None else _key(record.values[-1])
            place = f"{record.file}:{record.line}"
            yield TextRow(
                "" if text is None else _text(text),
                key,
                record.values[1 : 1 + len(self.keep)],
                missing=place if text is None else None,
                missing_key=place if self.id_column is not None and not key else None,
            )

    def _passages(self, source: Source, unread: list[str]) -> Iterator[TextRow]:
        """The passages of a document; of one that cannot be read none, and the reason."""
        try:
            document = read_file(source, source.name)
        except UnreadableDocument as error:
            logger.warning("not read: %s", error)
            unread.append(str(error))
            return
        for _, passage in passages_of(document, self.passage_words):
            yield TextRow(passage, "", (None,) * len(self.keep))


@contextmanager
def open_texts(
    inputs: Sequence[str],
    column: str,
    id_column: str | None,
    encoding: str,
    keep: tuple[str, ...] = (),
    layout: Layout | None = "lines",
    passage_words: int | None = CorpusConfig.passage_words,
) -> Iterator[Texts]:
    """Find the files and look at the beginning of each; standard input is kept while this is open.

    Args:
        inputs: files, folders, - for standard input, docstrings or docstrings:FOLDER.
        column: holds the texts, where a file has columns.
        id_column: holds the ids, `None` for no ids.
        encoding: of text files.
        keep: other columns that are read.
        layout: how txt files are read; `None`: as each looks.
        passage_words: of the passages of documents, at most; `None`: every paragraph is one.

    Raises:
        UserError: what cannot be read, and why.
    """
    docstrings = tuple(filter(is_docstrings, inputs))
    with tempfile.TemporaryDirectory(prefix="isospace-") as spool:
        files = [name for name in inputs if name not in docstrings]
        found = find_sources(files, Path(spool), encoding, documents=True)
        sources = with_layout(found, layout)
        rows = [source for source in sources if source.format not in DOCUMENT_FORMATS]
        tables = [source for source in rows if source.format != "txt"]
        without_columns = [source.name for source in sources if source not in tables]
        without_columns += docstrings
        if id_column is not None and without_columns:
            raise UserError(
                f"`id_column` {id_column}: {without_columns[0]} has no columns. "
                "Expected csv, tsv, jsonl or parquet files"
            )
        texts = Texts(sources, docstrings, column, id_column, keep, passage_words)
        unreadable = records.unreadable(sources, texts.columns)
        for error in unreadable.values():
            logger.warning("not read: %s", error)
        readable = [source for source in sources if source.name not in unreadable]
        yield replace(texts, sources=readable)


def _key(value: Any) -> str:
    """An id as text; empty where it is missing, which NaN is too."""
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else _text(str(value))


def _text(raw: str) -> str:
    return without_surrogates(raw.rstrip("\r\n"))
