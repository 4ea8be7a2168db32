"""The one reader of users' files: rows with the lines they stand in, streamed.

A file is parsed once however many of its columns are wanted, and nothing is held whole but one line
or one group of rows. `read_records` reads columns by their names; `read_rows` gives whole rows, for
whoever has to find out what they are. Files that are documents (`corpus/documents.py`) have no
rows: `read_bytes` gives what such a file holds.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import logging
import lzma
import os
import posixpath
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias, cast, get_args

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from isospace.corpus.documents import (
    ENDINGS,
    LARGEST,
    DocumentFormat,
    UnreadableDocument,
    format_of,
)
from isospace.errors import UserError, first_line
from isospace.statistics.counts import number_of

logger = logging.getLogger(__name__)

FileFormat = Literal["txt", "jsonl", "csv", "tsv", "parquet"]
FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)

STANDARD_INPUT = "standard input"
"""The name of that source."""
LINE_LIMIT = 1 << 24
"""Characters of one line that are read. The rest of a longer line of txt is skipped; a longer line
of another format is refused."""

_COMPRESSION = {".gz": "gzip", ".zst": "zstd", ".xz": "xz"}
_ROWS_AT_ONCE = 4096  # of parquet
_PIECE = 1 << 20  # bytes of a copy
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_STRINGS = ("string", "large_string", "string_view")  # of Arrow
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

Cells: TypeAlias = "list[Any] | dict[str, Any]"
"""A row's cells by place, or by column where the row itself names its columns."""


@dataclass(frozen=True)
class Source:
    """One file to read.

    Attributes:
        path: where it is.
        name: what messages call it.
        format: how it is parsed. A .txt file found by its name is "txt".
        compression: "gzip", "zstd", "xz" or None.
        encoding: of text, as the user named it; None where no setting names one: UTF-8.
        delimiter: between fields, as the user named it; None is what the first line has.
        in_folder: whether the user named the folder that has it, and not the file.
    """

    path: Path
    name: str
    format: FileFormat | DocumentFormat
    compression: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    in_folder: bool = False


@dataclass(frozen=True)
class Column:
    """A column to read.

    Attributes:
        name: in the file.
        setting: names the column in messages, such as "`id_column`".
        text: whether each value must be a text or missing; else values are as the file has them.
        required: whether every JSON object must have it.
    """

    name: str
    setting: str
    text: bool = True
    required: bool = True


class Record(NamedTuple):
    """What a row of a file has in the wanted columns.

    Attributes:
        file: what messages call the file.
        line: where the row begins; of parquet the row's number. Both count from 1.
        values: of each column; None is a missing value. A blank line is an empty text, and nothing
            in columns of other values. A file without columns has the line in the first place.
    """

    file: str
    line: int
    values: tuple[Any, ...]


def find_sources(
    files: Iterable[str],
    spool: Path,
    encoding: str,
    delimiter: str | None = None,
    documents: bool = False,
) -> list[Source]:
    """What to read: each file, the supported files of each folder, "-" for standard input, URLs.

    A folder is searched recursively, in sorted order; what is not supported in it is named in a
    warning, and a txt file with nothing in it is a document, which its reader refuses. Standard
    input is text, a sentence a line, and is copied to a file in `spool`, piece by piece. So is what
    a URL names (memory://, s3://, hf://, ... of fsspec), a file or a folder.

    Args:
        files: as the user named them.
        spool: a folder for what is copied.
        encoding: of texts.
        delimiter: between the fields of csv and tsv; None is what the first line has.
        documents: whether documents are read too, beside files of rows.

    Raises:
        UserError: a file is missing or of an unknown kind, a folder holds nothing to read, what a
            URL names cannot be read, or there is no such encoding.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise UserError(f"`delimiter` {delimiter!r}: expected one character, such as ; or |.")
    _check_encoding(encoding)
    sources: list[Source] = []
    for file in files:
        if file == "-":
            sources.append(_spool_standard_input(spool, encoding))
        elif "://" in file:
            for name, copy in _spool_url(file, spool, documents):
                source = file_source(copy, encoding, delimiter, documents)
                sources.append(replace(source, name=name, in_folder=name != file))
        elif os.path.isdir(file):
            sources += _folder_sources(Path(file), encoding, delimiter, documents)
        elif not os.path.isfile(file):
            raise UserError(
                f"{file}: no such file or folder. "
                "Expected a path, a URL, - for standard input or, where a command reads them, "
                "docstrings."
            )
        else:
            sources.append(file_source(Path(file), encoding, delimiter, documents))
    return sources


def _check_encoding(encoding: str) -> None:
    try:
        "".encode(encoding)
    except (LookupError, UnicodeError):
        raise UserError(
            f"`encoding` {encoding}: Python knows no such text encoding. "
            "Expected a name such as utf-8, latin-1, utf-16 or gbk."
        ) from None


def file_source(
    path: Path,
    encoding: str | None = None,
    delimiter: str | None = None,
    documents: bool = False,
) -> Source:
    """How to read one file, by its name.

    Raises:
        UserError: it is not there, or its ending is not known.
    """
    if not os.path.isfile(path):
        raise UserError(f"{path}: no such file. Expected {_supported(documents)}.")
    source = _source(path, encoding, delimiter, documents)
    if source is None:
        raise UserError(f"{path}: unknown kind of file. Expected {_supported(documents)}.")
    return source


def read_bytes(source: Source) -> bytes:
    """All that a file holds, decompressed: what a document is read from.

    Raises:
        UnreadableDocument: it cannot be read or decompressed, or has more than `LARGEST` bytes.
    """
    content = bytearray()
    try:
        with _open(source) as raw:
            while chunk := raw.read(1 << 20):
                content += chunk
                if len(content) > LARGEST:
                    raise UnreadableDocument(f"It has more than {LARGEST >> 20} MB.")
        return bytes(content)
    except (OSError, UnicodeError) as error:  # the latter of a file's name
        raise UnreadableDocument(f"It {_why_unreadable(source, error)}") from error


def with_marked_encoding(source: Source) -> Source:
    """The file, in UTF-16 where it begins with the byte order mark of that.

    Raises:
        UserError: it cannot be opened or decompressed.
    """
    try:
        with _open(source) as raw:
            marked = raw.read(2) in _UTF16_MARKS
    except (OSError, UnicodeError) as error:  # the latter of a file's name
        raise _unreadable(source, error) from error
    return replace(source, encoding="utf-16") if marked else source


def check(source: Source, columns: Sequence[Column]) -> None:
    """Refuse what can be refused after a look at the beginning of a file.

    Raises:
        UserError: it cannot be opened or decompressed, is empty, lacks a column, ...
    """
    try:
        with _open(source) as raw:
            if not raw.read(1):
                raise UserError(f"{source.name} is empty. Expected at least one sentence.")
    except (OSError, UnicodeError) as error:  # the latter of a file's name
        raise _unreadable(source, error) from error
    next(read_records(source, columns), None)


def unreadable(sources: Sequence[Source], columns: Sequence[Column]) -> dict[str, UserError]:
    """Name -> why a file of rows is left out, after a look at the beginning of each; see `check`.

    Such files lie about in folders, beside what is to be read there.

    Raises:
        UserError: one that was named by itself cannot be read, or nothing is left.
    """
    found = {}
    for source in sources:
        if source.format in FORMATS:
            try:
                check(source, columns)
            except UserError as error:
                if not source.in_folder:
                    raise
                found[source.name] = error
    if found and len(found) == len(sources):
        raise next(iter(found.values()))
    return found


def read_records(source: Source, columns: Sequence[Column]) -> Iterator[Record]:
    """The rows of a file in order, with what they have in the wanted columns.

    Args:
        source: the file.
        columns: one or more; a txt file has no columns, and its lines are the values of the first.

    Raises:
        UserError: naming the file, the line and what was expected.
    """
    if source.format == "parquet":
        return _parquet_records(source, columns)
    if source.format == "jsonl":
        return _json_records(source, columns)
    if source.format == "txt":
        return _line_records(source, columns)
    return _table_records(source, columns)


def read_rows(source: Source) -> Iterator[tuple[int, Cells]]:
    """Every row of a file that is not blank, a header among them, and the line where it begins.

    Of a txt file the cells stand between tabs. Rows of jsonl may be arrays or objects.

    Raises:
        UserError: naming the file and the line.
    """
    if source.format == "parquet":
        yield from _parquet_rows(source)
    elif source.format == "jsonl":
        for line, parsed in _json_rows(source):
            if parsed is not None:
                yield line, parsed
    else:
        for line, cells in _table_rows(source):
            if any(cell.strip() for cell in cells):
                yield line, cells


def read_lines(source: Source) -> list[str]:
    r"""The lines of a text file, cut at `\n` only, without their ends.

    Raises:
        UserError: the file cannot be read or is no text.
    """
    return [line.rstrip("\n").removesuffix("\r") for _, line in _lines(source, newline="\n")]


def _line_records(source: Source, columns: Sequence[Column]) -> Iterator[Record]:
    absent = (None,) * (len(columns) - 1)
    for number, line in _lines(source):
        yield Record(source.name, number, (line.rstrip("\n"), *absent))


def _json_records(source: Source, columns: Sequence[Column]) -> Iterator[Record]:
    blank = _blank(columns)
    for number, parsed in _json_rows(source):
        if parsed is None:
            yield Record(source.name, number, blank)
            continue
        place = f"{source.name}:{number}"
        if not isinstance(parsed, dict):
            raise UserError(f'{place}: expected a JSON object with "{columns[0].name}" in it.')
        values = tuple(_json_value(place, parsed, column) for column in columns)
        yield Record(source.name, number, values)


def _json_value(place: str, parsed: dict[str, Any], column: Column) -> Any:
    if column.required and column.name not in parsed:
        raise _no_column(place, column, parsed)
    value = parsed.get(column.name)
    if column.text and not isinstance(value, str | None):
        raise UserError(
            f'{place}: "{column.name}" is {json.dumps(value)[:80]}, expected a string. '
            f"Name another with {column.setting}."
        )
    return value


def _table_records(source: Source, columns: Sequence[Column]) -> Iterator[Record]:
    rows = _table_rows(source)
    _, header = next(rows, (1, []))
    for column in columns:
        _require_column(f"{source.name}:1", column, header)
    places = [header.index(column.name) for column in columns]
    blank = _blank(columns)
    for line, cells in rows:
        if cells and (len(cells) <= max(places) or len(cells) > len(header)):
            raise _other_width(source, line, cells, header)
        values = tuple(cells[place] for place in places) if cells else blank
        yield Record(source.name, line, values)


def _other_width(source: Source, line: int, cells: list[str], header: list[str]) -> UserError:
    """A row that lacks a wanted field, or has text that no column holds."""
    width = number_of(len(cells), "fields")
    problem = f"{source.name}:{line}: {width}, the header has {len(header)}."
    if len(cells) < len(header):
        return UserError(problem)
    if source.format == "csv":
        return UserError(f'{problem} Put a field with the delimiter in it between quotes ("...").')
    return UserError(f"{problem} Take the delimiter out of the text.")


def _blank(columns: Sequence[Column]) -> tuple[Any, ...]:
    return tuple("" if column.text else None for column in columns)


def _parquet_records(source: Source, columns: Sequence[Column]) -> Iterator[Record]:
    number = 0
    try:
        with pq.ParquetFile(source.path) as file:
            schema = file.schema_arrow
            for column in columns:
                _check_parquet_column(source, column, schema)
            names = list(dict.fromkeys(column.name for column in columns))
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names):
                values = [_parquet_values(source, batch, column) for column in columns]
                for row in zip(*values, strict=True):
                    number += 1
                    yield Record(source.name, number, row)
    except (OSError, pa.ArrowException, UnicodeError) as error:  # the latter of a column's name
        raise _unreadable(source, error) from error


def _check_parquet_column(source: Source, column: Column, schema: pa.Schema) -> None:
    _require_column(source.name, column, schema.names)
    kind = schema.field(column.name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if column.text and str(kind) not in _STRINGS:
        raise UserError(
            f'{source.name}: column "{column.name}" is of type {kind}, expected string. '
            f"Name another with {column.setting}."
        )


def _parquet_values(source: Source, batch: pa.RecordBatch, column: Column) -> list[Any]:
    try:
        values: list[Any] = batch.column(column.name).to_pylist()
    except (ValueError, OverflowError) as error:
        # A text that is not UTF-8, or a date that Python does not have.
        raise UserError(
            f'{source.name}: column "{column.name}" cannot be read ({error}). '
            f"Mend the file, or name another column with {column.setting}."
        ) from error
    return values


def _parquet_rows(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with pq.ParquetFile(source.path) as file:
            rows = chain.from_iterable(
                map(pa.RecordBatch.to_pylist, file.iter_batches(_ROWS_AT_ONCE))
            )
            yield from enumerate(rows, 1)
    except (OSError, pa.ArrowException, ValueError, OverflowError) as error:
        # Every column is read: a date that Python does not have is in the way too.
        raise _unreadable(source, error) from error


def _json_rows(source: Source) -> Iterator[tuple[int, Cells | None]]:
    """Numbers of lines with the object or array in each, None for a blank line."""
    for number, line in _whole_lines(source):
        if not line.strip():
            yield number, None
            continue
        place = f"{source.name}:{number}"
        try:
            parsed = json.loads(line.lstrip("\ufeff"))
        except (ValueError, RecursionError) as error:  # a number can have too many digits, too
            raise UserError(
                f"{place}: not valid JSON ({error}). Expected one JSON object a line, "
                'such as {"text": "A sentence."}.'
            ) from None
        if not isinstance(parsed, dict | list):
            raise UserError(f"{place}: expected a JSON object, not {line.strip()[:40]!r}.")
        yield number, parsed


def _table_rows(source: Source) -> Iterator[tuple[int, list[str]]]:
    """Rows of csv, or of tab-separated text, with the lines where they begin."""
    csv.field_size_limit(LINE_LIMIT)  # for the whole process; the default is 128 KiB
    # The csv module of Python 3.10 refuses NULs.
    lines = (line.replace("\0", "") for _, line in _whole_lines(source, newline=""))
    first = next(lines, "")
    delimiter = source.delimiter or _delimiter(source.format, first)
    table = chain([first], lines)
    if source.format == "csv":
        rows = csv.reader(table, delimiter=delimiter, strict=True)
    else:
        # Tab-separated text is as a rule written without quoting: a quote in it is a quote.
        rows = csv.reader(table, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    begin = 1
    try:
        for cells in rows:
            yield begin, cells
            begin = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{source.name}:{begin}: not valid {source.format} ({error}).") from error


def _delimiter(format: str, first: str) -> str:
    """The sign between fields: the format's own; in csv, where a first line has none, another."""
    own = _DELIMITERS.get(format, "\t")
    others = (sign for sign in ";\t|" if format == "csv" and own not in first and sign in first)
    return next(others, own)


def _whole_lines(source: Source, newline: str | None = None) -> Iterator[tuple[int, str]]:
    """Numbered lines; one that would be cut is refused."""
    for number, line in _lines(source, newline):
        if len(line) == LINE_LIMIT:
            raise UserError(f"{source.name}:{number}: a line of {LINE_LIMIT:,} characters or more.")
        yield number, line


def _lines(source: Source, newline: str | None = None) -> Iterator[tuple[int, str]]:
    """Numbered lines with their ends, each cut at LINE_LIMIT characters."""
    encoding = source.encoding or "utf-8"
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
    if source.compression == "xz":  # which Arrow does not know
        return cast(BinaryIO, _Xz(source.path))
    stream: BinaryIO = pa.input_stream(source.path, compression=source.compression)
    return stream


class _Xz(lzma.LZMAFile):
    """Bytes of an .xz file; what is wrong with them is an OSError, as of other files."""

    def read(self, size: int | None = -1) -> bytes:
        with _as_os_error():
            return super().read(size)

    def read1(self, size: int = -1) -> bytes:
        with _as_os_error():
            return super().read1(size)


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except (lzma.LZMAError, EOFError) as error:
        raise OSError(str(error)) from error


def _undecodable(source: Source, encoding: str) -> UserError:
    """Reads the file again to say where the first bytes are that are no text in this encoding."""
    name = encoding.removesuffix("-sig")
    decoder = codecs.getincrementaldecoder(name)()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    line, offset, start, rest = 1, 0, b"", b""
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
                rest = error.object[error.start :]
                break
            except UnicodeError as error:  # no byte order mark
                hint = "Name what it is, for instance `encoding` utf-16-le or `encoding` utf-8."
                return UserError(f"{source.name}: not {name} ({error}). {hint}")
            line += newlines.decode(text).count("\n")
            offset += len(chunk)
    advice = "Convert the file to UTF-8."
    if source.encoding is not None:
        advice = (
            "Convert the file, or name its encoding, for instance "
            f"`encoding` {_likely_encoding(start, rest)}."
        )
    return UserError(f"{source.name}:{line}: not {name} at byte {offset} of the text. {advice}")


def _likely_encoding(start: bytes, rest: bytes) -> str:
    r"""A guess from a file's first two bytes, and from some that begin with what is no UTF-8.

    >>> _likely_encoding(b"Un", b"\xe9t\xe9"), _likely_encoding(b"Un", b"\xe9t\xe9 \x96 chaud")
    ('latin-1', 'cp1252')
    """
    if start in _UTF16_MARKS:
        return "utf-16"
    # Where Windows has its quotes and dashes, Latin-1 has control characters that nobody writes.
    has_windows_signs = any(0x80 <= byte <= 0x9F for byte in rest)
    undefined = any(byte in b"\x81\x8d\x8f\x90\x9d" for byte in rest)
    return "cp1252" if has_windows_signs and not undefined else "latin-1"


def _unreadable(source: Source, error: Exception) -> UserError:
    return UserError(f"{source.name} {_why_unreadable(source, error)}")


def _why_unreadable(source: Source, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    kind = source.path.suffix if source.compression else source.format
    return f"cannot be read as {kind}: {reason}."


def _require_column(place: str, column: Column, columns: Sequence[str]) -> None:
    if column.name not in columns:
        raise _no_column(place, column, columns)
    if columns.count(column.name) > 1:
        raise UserError(
            f'{place}: several columns are called "{column.name}". Rename them, or name another '
            f"with {column.setting}."
        )


def _no_column(place: str, column: Column, columns: Iterable[str]) -> UserError:
    names = ", ".join(str(name) for name in columns)[:300]
    return UserError(
        f'{place}: no column "{column.name}". Columns: {names}. Name one with {column.setting}.'
    )


def _supported(documents: bool) -> str:
    formats = f".{', .'.join(FORMATS)}, or a text one of them followed by .gz, .zst or .xz"
    if documents:
        others = ", ".join(ending for ending in ENDINGS if ending[1:] not in FORMATS)
        return f"a document ({others}, a man page such as ls.1) or {formats}"
    return formats


def _source(
    path: Path, encoding: str | None, delimiter: str | None, documents: bool
) -> Source | None:
    """How to read the file by its name, or None."""
    compression = _COMPRESSION.get(path.suffix.lower())
    inner = path.with_suffix("") if compression else path
    ending = inner.suffix.lower().removeprefix(".")
    for known in FORMATS:
        if ending == known and not (compression and known == "parquet"):
            return Source(path, str(path), known, compression, encoding, delimiter)
    document = format_of(inner.name) if documents else None
    return Source(path, str(path), document, compression, encoding) if document else None


def _folder_sources(
    folder: Path, encoding: str, delimiter: str | None, documents: bool
) -> list[Source]:
    def refuse(error: OSError) -> None:
        raise UserError(f"{error.filename} cannot be listed: {error.strerror}.")

    walk = os.walk(folder, onerror=refuse)
    paths = sorted(Path(root, name) for root, _, names in walk for name in names)
    by_path = {path: _source(path, encoding, delimiter, documents) for path in paths}
    sources = [replace(source, in_folder=True) for source in by_path.values() if source is not None]
    ignored = [str(path) for path, source in by_path.items() if source is None]
    if not sources:
        raise UserError(
            f"{folder}: no file to read in this folder. Expected {_supported(documents)}."
        )
    if ignored:
        more = f" and {len(ignored) - 10} more" if len(ignored) > 10 else ""
        logger.warning("%s: not read: %s%s", folder, ", ".join(ignored[:10]), more)
    if not documents:
        return sources
    # Such files lie about in folders; one that is named by itself is a mistake.
    return [
        replace(source, format="text") if source.format == "txt" and _is_blank(source) else source
        for source in sources
    ]


def _is_blank(source: Source) -> bool:
    """Whether a file holds nothing but white space, if that; one that cannot be read says more."""
    try:
        with _open(source) as raw:
            return not any(chunk.strip() for chunk in iter(partial(raw.read, 1 << 16), b""))
    except (OSError, UnicodeError):  # the latter of a file's name
        return False


def _spool_standard_input(spool: Path, encoding: str) -> Source:
    path = spool / "stdin.txt"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Source(path, STANDARD_INPUT, "txt", encoding=encoding)


def _spool_url(url: str, spool: Path, documents: bool) -> list[tuple[str, Path]]:
    """Copies of the file that a URL names, or of the supported files in such a folder.

    Returns:
        What messages call each, and where its copy is, below a folder of this URL alone.
    """
    folder = spool / f"url-{len(list(spool.glob('url-*')))}"
    try:
        store, place = fsspec.core.url_to_fs(url)
        if not store.isdir(place):
            names = {place: posixpath.basename(place)}
        else:
            names = {path: posixpath.relpath(path, place) for path in sorted(store.find(place))}
            names = {
                path: name
                for path, name in names.items()
                if _source(Path(name), None, None, documents) is not None
            }
        for path, name in names.items():
            if name.startswith(".."):
                raise UserError(f"{url}: {path} leads out of the folder; leave it out.")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with store.open(path, "rb") as stored, (folder / name).open("wb") as copy:
                shutil.copyfileobj(stored, copy, _PIECE)
    except UserError:
        raise
    except Exception as error:  # every store has errors of its own
        raise UserError(f"{url} cannot be read: {first_line(error)}.") from error
    if not names:
        raise UserError(f"{url}: no file to read there. Expected {_supported(documents)}.")
    if list(names) == [place]:
        return [(url, folder / names[place])]
    return [(f"{url.rstrip('/')}/{name}", folder / name) for name in names.values()]
