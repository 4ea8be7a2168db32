"""Text files to lines of text, streamed: nothing is held whole but one line or one row group."""

from __future__ import annotations

import codecs
import csv
import io
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from isospace.errors import UserError

logger = logging.getLogger(__name__)

LINE_LIMIT = 1 << 24
"""Characters of one line that are read; the rest of a longer line of text is skipped."""

_COMPRESSION = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True)
class Source:
    """One file to read."""

    path: Path
    """Where it is."""
    name: str
    """What messages call it."""
    format: str
    """One of the keys of `READERS`."""
    compression: str | None = None
    """"gzip", "zstd" or None."""


def find_sources(files: Iterable[str], spool: Path) -> list[Source]:
    """What to read: each file, the supported files of each folder, and "-" for standard input.

    A folder is searched recursively, in sorted order; what is not supported in it is named in a
    warning. Standard input is text, a sentence a line, and is copied to a file in `spool`.

    Raises:
        UserError: a file is missing or of an unknown kind, or a folder holds nothing to read.
    """
    sources: list[Source] = []
    for file in files:
        if file == "-":
            sources.append(_spool_standard_input(spool))
        elif os.path.isdir(file):
            sources += _folder_sources(Path(file))
        elif not os.path.isfile(file):
            raise UserError(
                f"{file}: no such file or folder. "
                "Expected a path, - for standard input or, where a command reads them, docstrings."
            )
        elif source := _source(Path(file)):
            sources.append(source)
        else:
            raise UserError(f"{file}: unknown kind of file. Expected {_supported()}.")
    return sources


def check(source: Source, column: str, encoding: str, option: str = "`column`") -> None:
    """Refuses what can be refused after a look at the beginning of a file; arguments as for `read`.

    Raises:
        UserError: it cannot be opened or decompressed, is empty, lacks the column, ...
    """
    try:
        "".encode(encoding)
    except (LookupError, UnicodeError):
        raise UserError(
            f"`encoding` {encoding}: Python knows no such text encoding. "
            "Expected a name such as utf-8, latin-1, utf-16 or gbk."
        ) from None
    try:
        with _open(source) as raw:
            empty = not raw.read(1)
    except (OSError, UnicodeError) as error:  # the latter of a file's name
        raise _unreadable(source, error) from error
    if empty:
        raise UserError(f"{source.name} is empty. Expected at least one sentence.")
    next(read(source, column, encoding, option), None)


def read(source: Source, column: str, encoding: str, option: str = "`column`") -> Iterator[str]:
    """The texts of a file in order, as they stand (a missing value is an empty text).

    Args:
        source: the file.
        column: which column of jsonl, csv, tsv and parquet.
        encoding: of all formats but parquet.
        option: which option of the command names the column, for messages.

    Raises:
        UserError: naming the file, the line and what was expected.
    """
    return READERS[source.format](source, column, encoding, option)


def _read_txt(source: Source, column: str, encoding: str, option: str) -> Iterator[str]:
    return (line for _, line in _lines(source, encoding))


def _read_jsonl(source: Source, column: str, encoding: str, option: str) -> Iterator[str]:
    for number, line in _lines(source, encoding):
        if not line.strip() or len(line) == LINE_LIMIT:
            yield line
            continue
        where = f"{source.name}:{number}"
        try:
            record = json.loads(line.lstrip("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{where}: not valid JSON ({error}). Expected one JSON object a line, "
                f'such as {{"{column}": "A sentence."}}.'
            ) from None
        if not isinstance(record, dict):
            raise UserError(f'{where}: expected a JSON object with "{column}" in it.')
        if column not in record:
            raise no_column(where, column, record, option)
        value = "" if record[column] is None else record[column]
        if not isinstance(value, str):
            raise UserError(
                f'{where}: "{column}" is {json.dumps(value)[:80]}, expected a string. '
                f"Name another with {option}."
            )
        yield value


def _read_rows(
    source: Source, column: str, encoding: str, option: str, delimiter: str, quoting: Literal[0, 3]
) -> Iterator[str]:
    csv.field_size_limit(LINE_LIMIT)  # for the whole process; the default is 128 KiB
    lines = _row_lines(source, encoding)
    rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    try:
        header = next(rows, [])
        if column not in header:
            raise no_column(f"{source.name}:1", column, header, option)
        index = header.index(column)
        for row in rows:
            if row and len(row) <= index:
                where = f"{source.name}:{rows.line_num}"
                raise UserError(f"{where}: {len(row)} fields, the header has {len(header)}.")
            yield row[index] if row else ""
    except csv.Error as error:
        where = f"{source.name}:{rows.line_num}"
        raise UserError(f"{where}: not valid {source.format} ({error}).") from error


def _row_lines(source: Source, encoding: str) -> Iterator[str]:
    for number, line in _lines(source, encoding, newline=""):
        if len(line) == LINE_LIMIT:
            raise UserError(f"{source.name}:{number}: a line of {LINE_LIMIT:,} characters or more.")
        yield line.replace("\0", "")  # the csv module of Python 3.10 refuses NULs


def _read_parquet(source: Source, column: str, encoding: str, option: str) -> Iterator[str]:
    try:
        with pq.ParquetFile(source.path) as file:
            schema = file.schema_arrow
            if column not in schema.names:
                raise no_column(source.name, column, schema.names, option)
            kind = schema.field(column).type
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise UserError(
                    f'{source.name}: column "{column}" is of type {kind}, expected string. '
                    f"Name another with {option}."
                )
            for batch in file.iter_batches(batch_size=4096, columns=[column]):
                yield from (value or "" for value in batch.column(0).to_pylist())
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise _unreadable(source, error) from error


READERS: dict[str, Callable[[Source, str, str, str], Iterator[str]]] = {
    "txt": _read_txt,
    "jsonl": _read_jsonl,
    "csv": partial(_read_rows, delimiter=",", quoting=csv.QUOTE_MINIMAL),
    # Tab-separated text is as a rule written without quoting: a quote in it is a quote.
    "tsv": partial(_read_rows, delimiter="\t", quoting=csv.QUOTE_NONE),
    "parquet": _read_parquet,
}


def _lines(source: Source, encoding: str, newline: str | None = None) -> Iterator[tuple[int, str]]:
    """Numbered lines with their ends, each cut at LINE_LIMIT characters."""
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-8-sig"  # without it, the mark some editors write joins the first column
    try:
        with io.TextIOWrapper(_open(source), encoding=encoding, newline=newline) as text:
            number = 0
            while line := text.readline(LINE_LIMIT):
                number += 1
                yield number, line
                while len(line) == LINE_LIMIT and not line.endswith(("\n", "\r")):
                    line = text.readline(LINE_LIMIT)
    except UnicodeError as error:
        raise _undecodable(source, encoding) from error
    except OSError as error:
        raise _unreadable(source, error) from error


def _open(source: Source) -> BinaryIO:
    """The (decompressed) bytes; Arrow's stream, unlike others, reports a truncated .zst file."""
    stream: BinaryIO = pa.input_stream(source.path, compression=source.compression)
    return stream


def _undecodable(source: Source, encoding: str) -> UserError:
    """Reads the file again to say where the first bytes are that are no text in this encoding."""
    name = encoding.removesuffix("-sig")
    decoder = codecs.getincrementaldecoder(name)()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    line, offset, start = 1, 0, b""
    with _open(source) as raw:
        for chunk in chain(iter(partial(raw.read, 1 << 20), b""), [b""]):
            start = start or chunk[:2]
            begun = len(decoder.getstate()[0])  # bytes of a character that the last chunk began
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(name, "replace")
                line += newlines.decode(before, final=True).count("\n")
                offset += error.start - begun
                break
            except UnicodeError as error:  # no byte order mark
                hint = "Name what it is, for instance `encoding` utf-16-le or `encoding` utf-8."
                return UserError(f"{source.name}: not {name} ({error}). {hint}")
            line += newlines.decode(text).count("\n")
            offset += len(chunk)
    likely = "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin-1"
    return UserError(
        f"{source.name}:{line}: not {name} at byte {offset} of the text. Convert the file, "
        f"or name its encoding, for instance `encoding` {likely}."
    )


def _unreadable(source: Source, error: Exception) -> UserError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    kind = source.path.suffix if source.compression else source.format
    return UserError(f"{source.name} cannot be read as {kind}: {reason}.")


def no_column(where: str, column: str, columns: Iterable[str], option: str) -> UserError:
    """The error for a column that is not there, with those that are and the option to name one."""
    names = ", ".join(str(name) for name in columns)[:300]
    return UserError(f'{where}: no column "{column}". Columns: {names}. Name one with {option}.')


def _supported() -> str:
    return f".{', .'.join(READERS)}, or a text one of them followed by .gz or .zst"


def _source(path: Path) -> Source | None:
    """How to read the file by its name, or None."""
    compression = _COMPRESSION.get(path.suffix.lower())
    inner = path.with_suffix("") if compression else path
    kind = inner.suffix.lower().removeprefix(".")
    if kind not in READERS or (compression and kind == "parquet"):
        return None
    return Source(path, str(path), kind, compression)


def _folder_sources(folder: Path) -> list[Source]:
    def refuse(error: OSError) -> None:
        raise UserError(f"{error.filename} cannot be listed: {error.strerror}.")

    walk = os.walk(folder, onerror=refuse)
    paths = sorted(Path(root, name) for root, _, names in walk for name in names)
    found = {path: _source(path) for path in paths}
    sources = [source for source in found.values() if source is not None]
    if not sources:
        raise UserError(f"{folder}: no file to read in this folder. Expected {_supported()}.")
    ignored = [str(path) for path, source in found.items() if source is None]
    if ignored:
        more = f" and {len(ignored) - 10} more" if len(ignored) > 10 else ""
        logger.warning("%s: not read: %s%s", folder, ", ".join(ignored[:10]), more)
    return sources


def _spool_standard_input(spool: Path) -> Source:
    path = spool / "stdin.txt"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Source(path, "standard input", "txt")
