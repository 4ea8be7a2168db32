"""Texts to encode, streamed from files, each with its id where the files have some.

A row of the input is a row of the output: an empty line is the empty text and gets its vector.
Nothing is cleaned or dropped; the line's end and halves of surrogate pairs, which are no text, are
all that is changed.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from isospace.config import CorpusConfig
from isospace.corpus import readers
from isospace.corpus.readers import Source
from isospace.corpus.sentences import load_corpus
from isospace.errors import UserError
from isospace.files import cache_folder

Record = tuple[str, str]
"""A text and its id ("" where there are none)."""


@dataclass(frozen=True)
class Records:
    """The rows of some files in order; every iteration reads the files again.

    Attributes:
        sources: the files.
        docstrings: begin with the prose of the installed Python packages.
        column: holds the texts, where a file has columns.
        id_column: holds the ids, `None` for no ids.
        encoding: of text files.
    """

    sources: Sequence[Source]
    docstrings: bool
    column: str
    id_column: str | None
    encoding: str

    def __iter__(self) -> Iterator[Record]:
        if self.docstrings:
            corpus = load_corpus(CorpusConfig(corpus=("docstrings",)), cache_folder())
            yield from zip(corpus, repeat(""))
        for source in self.sources:
            texts = readers.read(source, self.column, self.encoding)
            # The texts come first: their reader is the one that checks the file.
            for text, key in zip(texts, self._ids(source), strict=self.id_column is not None):
                yield _text(text), key

    def _ids(self, source: Source) -> Iterator[str]:
        if self.id_column is None:
            return repeat("")
        if source.format == "parquet":
            return _parquet_ids(source, self.id_column)
        if source.format == "jsonl":
            return _jsonl_ids(source, self.id_column, self.encoding)
        return readers.read(source, self.id_column, self.encoding)

    def scan(self) -> tuple[int, str]:
        """Number of rows, and a hash of them; reads everything once, so that errors come first."""
        rows, content = 0, blake2b(digest_size=16)
        for text, key in self:
            rows += 1
            for part in (text.encode(), key.encode()):
                content.update(len(part).to_bytes(8, "little") + part)
        return rows, content.hexdigest()


@contextmanager
def open_records(
    inputs: Sequence[str], column: str, id_column: str | None, encoding: str
) -> Iterator[Records]:
    """Find the files and look at the beginning of each; standard input is kept while this is open.

    Args:
        inputs: files, folders, - for standard input, or docstrings.
        column: holds the texts, where a file has columns.
        id_column: holds the ids, `None` for no ids.
        encoding: of text files.

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
                f"--id-column {id_column}: {lines[0]} has no columns. Expected csv, tsv, jsonl or "
                "parquet files"
            )
        records = Records(sources, docstrings, column, id_column, encoding)
        for source in sources:
            readers.check(source, column, encoding)
            next(records._ids(source), None)
        yield records


def _text(raw: str) -> str:
    line = raw.rstrip("\r\n")
    return line if line.isascii() else line.encode("utf-8", "replace").decode()


def _parquet_ids(source: Source, column: str) -> Iterator[str]:
    with pq.ParquetFile(source.path) as file:
        if column not in file.schema_arrow.names:
            raise _no_id(source.name, column, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=4096, columns=[column]):
            yield from (_id(value) for value in batch.column(0).to_pylist())


def _jsonl_ids(source: Source, column: str, encoding: str) -> Iterator[str]:
    stream = pa.input_stream(source.path, compression=source.compression)
    with io.TextIOWrapper(stream, encoding=encoding) as lines:
        for number, line in enumerate(lines, 1):
            content = line.lstrip("\ufeff").strip()
            record: dict[str, Any] = json.loads(content) if content else {column: None}
            if column not in record:
                raise _no_id(f"{source.name}:{number}", column, list(record))
            yield _id(record[column])


def _id(value: Any) -> str:
    return "" if value is None else _text(str(value))


def _no_id(where: str, column: str, columns: Sequence[str]) -> UserError:
    names = ", ".join(columns)[:300]
    return UserError(f'{where}: no column "{column}". Columns: {names}. Name one with --id-column')
