"""Texts to encode, streamed from files, with ids and other columns where the files have some.

A row of the input is a row of the output: an empty line is the empty text and gets its vector.
Nothing is cleaned or dropped; the line's end and halves of surrogate pairs, which are no text, are
all that is changed. Only docstrings are no file: they are a corpus, cleaned and de-duplicated.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from isospace.config import CorpusConfig
from isospace.corpus import readers
from isospace.corpus.readers import Source
from isospace.corpus.sentences import load_corpus
from isospace.errors import UserError
from isospace.system.cache import cache_folder
from isospace.system.unicode import without_surrogates

Record = tuple[str, str]
"""A text and its id ("" where there are none)."""


class Row(NamedTuple):
    """A row of a file.

    Attributes:
        text: to encode.
        key: its id, "" where there is none.
        values: of the columns to keep: text in csv and tsv, none in files without columns, else as
            the file has them.
    """

    text: str
    key: str
    values: tuple[Any, ...]


class Part(NamedTuple):
    """What one source holds.

    Attributes:
        name: what messages call the source.
        format: of the file, as `Source.format`.
        rows: in order.
    """

    name: str
    format: str
    rows: Iterator[Row]


class RowsHash:
    """Number and hash of the rows seen so far."""

    def __init__(self) -> None:
        self.rows, self._content = 0, blake2b(digest_size=16)

    def add(self, record: Record) -> None:
        """See the next row."""
        self.rows += 1
        for part in record:
            encoded = part.encode()
            self._content.update(len(encoded).to_bytes(8, "little") + encoded)

    @property
    def digest(self) -> str:
        """The hash, in hexadecimal digits."""
        return self._content.hexdigest()


@dataclass(frozen=True)
class Records:
    """The rows of some files in order; every iteration reads the files again.

    Attributes:
        sources: the files.
        docstrings: begin with the prose of the installed Python packages.
        column: holds the texts, where a file has columns.
        id_column: holds the ids, `None` for no ids.
        encoding: of text files.
        keep: other columns that are read.
    """

    sources: Sequence[Source]
    docstrings: bool
    column: str
    id_column: str | None
    encoding: str
    keep: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Record]:
        for part in self.parts():
            for row in part.rows:
                yield row.text, row.key

    def parts(self) -> Iterator[Part]:
        """The sources, each with its rows."""
        if self.docstrings:
            corpus = load_corpus(CorpusConfig(corpus=("docstrings",)), cache_folder())
            yield Part("docstrings", "txt", (Row(text, "", self._none) for text in corpus))
        for source in self.sources:
            yield Part(source.name, source.format, self._rows(source))

    def _rows(self, source: Source) -> Iterator[Row]:
        texts = readers.read(source, self.column, self.encoding)
        # The texts come first: their reader is the one that checks the file.
        for text, *values in zip(texts, *self._values(source), strict=True):
            if source.format == "jsonl" and len(text) >= readers.LINE_LIMIT:
                raise UserError(
                    f"{source.name}: a line of {readers.LINE_LIMIT:,} characters or more, that "
                    f"begins with {text[:60]!r}"
                )
            key = "" if self.id_column is None else _id(values.pop(0))
            yield Row(_text(text), key, tuple(values) or self._none)

    @property
    def _none(self) -> tuple[None, ...]:
        return (None,) * len(self.keep)

    def _values(self, source: Source) -> list[Iterator[Any]]:
        """Of the column of ids, if there is one, and of those to keep."""
        if source.format == "txt":
            return []
        columns = [(name, "`keep`") for name in self.keep]
        if self.id_column is not None:
            columns.insert(0, (self.id_column, "`id_column`"))
        if source.format == "parquet":
            return [_parquet_values(source, *column) for column in columns]
        if source.format == "jsonl":
            return [_jsonl_values(source, *column, self.encoding) for column in columns]
        return [readers.read(source, name, self.encoding, option) for name, option in columns]

    def scan(self) -> RowsHash:
        """Count and hash the rows; reads everything once, so that errors come first."""
        found = RowsHash()
        for record in self:
            found.add(record)
        return found


@contextmanager
def open_records(
    inputs: Sequence[str],
    column: str,
    id_column: str | None,
    encoding: str,
    keep: tuple[str, ...] = (),
) -> Iterator[Records]:
    """Find the files and look at the beginning of each; standard input is kept while this is open.

    Args:
        inputs: files, folders, - for standard input, or docstrings.
        column: holds the texts, where a file has columns.
        id_column: holds the ids, `None` for no ids.
        encoding: of text files.
        keep: other columns that are read.

    Raises:
        UserError: what cannot be read, and why.
    """
    docstrings = "docstrings" in inputs
    with tempfile.TemporaryDirectory(prefix="isospace-") as spool:
        files = [name for name in inputs if name != "docstrings"]
        sources = readers.find_sources(files, Path(spool))
        lines = [s.name for s in sources if s.format == "txt"] + ["docstrings"] * docstrings
        if id_column is not None and lines:
            raise UserError(
                f"`id_column` {id_column}: {lines[0]} has no columns. Expected csv, tsv, jsonl or "
                "parquet files"
            )
        records = Records(sources, docstrings, column, id_column, encoding, keep)
        for source in sources:
            readers.check(source, column, encoding)
            next(records._rows(source), None)
        yield records


def _text(raw: str) -> str:
    return without_surrogates(raw.rstrip("\r\n"))


def _parquet_values(source: Source, column: str, option: str) -> Iterator[Any]:
    try:
        with pq.ParquetFile(source.path) as file:
            if column not in file.schema_arrow.names:
                raise readers.no_column(source.name, column, file.schema_arrow.names, option)
            for batch in file.iter_batches(batch_size=4096, columns=[column]):
                yield from batch.column(0).to_pylist()
    except (OSError, ValueError, OverflowError, pa.ArrowException) as error:
        # A text that is not UTF-8, a date beyond Python's, damage in this column alone.
        raise UserError(f"{source.name}: column {column!r} cannot be read: {error}") from error


def _jsonl_values(source: Source, column: str, option: str, encoding: str) -> Iterator[Any]:
    stream = pa.input_stream(source.path, compression=source.compression)
    with io.TextIOWrapper(stream, encoding=encoding) as lines:
        for number, line in enumerate(lines, 1):
            content = line.lstrip("\ufeff").strip()
            record: dict[str, Any] = json.loads(content) if content else {column: None}
            if column not in record and option == "`id_column`":
                raise readers.no_column(f"{source.name}:{number}", column, record, option)
            yield record.get(column)


def _id(value: Any) -> str:
    return "" if value is None else _text(str(value))
