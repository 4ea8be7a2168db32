"""Find the files that a user named, and open their decompressed bytes and decoded lines."""

from __future__ import annotations

import codecs
import io
import logging
import lzma
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from isospace.config import Layout
from isospace.corpus.docstrings import DOCSTRINGS, is_docstrings
from isospace.corpus.formats import ENDINGS, TOO_LARGE, UnreadableDocument, format_of
from isospace.corpus.formats.text import txt_layout
from isospace.errors import UserError, first_line
from isospace.system.files import most_unpacked
from isospace.system.settings import with_home

logger = logging.getLogger(__name__)

FORMATS = ("txt", "jsonl", "csv", "tsv", "parquet")
"""Formats of files of rows; each is also the ending of the file's name."""
COMPRESSION = {".gz": "gzip", ".zst": "zstd", ".xz": "xz"}

_UNREADABLE = (OSError, lzma.LZMAError, EOFError, UnicodeError)
"""Errors of a file that cannot be read or decompressed; UnicodeError: its name is no text."""
_ESCAPED = re.compile("[\udc80-\udcff]")  # bytes that were not decoded
_LOOKED_AT = 400
"""Number of lines that decide between the layouts paragraphs and lines."""


@dataclass(frozen=True)
class Source:
    """One file to read, with its format.

    A .txt file is "txt" for lines, "text" for paragraphs. Without an `encoding` it is UTF-8.
    """

    path: Path
    name: str
    """Name in messages."""
    format: str
    compression: str | None = None
    encoding: str | None = None
    in_folder: bool = False
    """True if the file was found in a folder that the user named."""

    @property
    def has_columns(self) -> bool:
        """True if the file has named columns."""
        return self.format in FORMATS and self.format != "txt"


def read_bytes(source: Source) -> bytes:
    """Return the decompressed content of a file, or raise `UnreadableDocument`."""
    try:
        if source.compression is None:
            return source.path.read_bytes()
        most = most_unpacked(source.path.stat().st_size)
        with open_bytes(source) as raw:
            content = raw.read(most + 1)
    except _UNREADABLE as error:
        raise UnreadableDocument(f"It {_why_unreadable(source, error)}") from error
    if len(content) > most:
        raise UnreadableDocument(f"{TOO_LARGE}, unpack it yourself.")
    return content


def lines_of(source: Source, newline: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) with line ends."""
    encoding = source.encoding or "utf-8"
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-8-sig"  # else a byte order mark becomes part of the first column
    try:
        with io.TextIOWrapper(open_bytes(source), encoding=encoding, newline=newline) as text:
            yield from enumerate(text, 1)
    except UnicodeError as error:
        raise _undecodable(source, encoding, error) from error
    except _UNREADABLE as error:
        raise cannot_be_read(source, error) from error


def open_bytes(source: Source) -> BinaryIO:
    """Open the decompressed bytes by Arrow, which reports a truncated .zst file."""
    if source.compression == "xz":  # Arrow does not read xz
        return cast(BinaryIO, lzma.open(source.path))
    stream: BinaryIO = pa.input_stream(source.path, compression=source.compression)
    return stream


def _undecodable(source: Source, encoding: str, error: UnicodeError) -> UserError:
    """Read the file again to find the first undecodable line, and return its error."""
    place = source.name
    with (
        suppress(UnicodeError),  # UTF-16 has no such lines
        io.TextIOWrapper(open_bytes(source), encoding, errors="surrogateescape") as text,
    ):
        place += f":{next(number for number, line in enumerate(text, 1) if _ESCAPED.search(line))}"
    name = encoding.removesuffix("-sig")
    advice = "Convert the file to UTF-8"
    if source.encoding is not None:
        advice += ", or name its encoding with `encoding`"
    return UserError(f"{place}: not {name} ({first_line(error)}). {advice}.")


def cannot_be_read(source: Source, error: Exception) -> UserError:
    """Return the error for a file that cannot be opened, decompressed or parsed."""
    return UserError(f"{source.name} {_why_unreadable(source, error)}")


def _why_unreadable(source: Source, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    kind = source.path.suffix if source.compression else source.format
    return f"cannot be read as {kind}: {reason.rstrip('.')}."


STANDARD_INPUT = "standard input"

_OUTPUTS = (
    {"config.json", "metrics.jsonl"},  # a run
    {"results.json", ".lock"},  # a comparison
    {"modules.json", "config_sentence_transformers.json"},  # a model
    {"isospace.json"},  # an index
)
"""Files that mark a folder as an output of isospace. Such folders are not read, because their
reports quote held-out text."""
_LICENCES = ("LICENSE", "LICENCE", "COPYING")
"""Names of files of folders that are not read, whatever they end in."""


def require_columns(
    sources: Iterable[Source], named: Iterable[str], setting: str, column: str | None
) -> None:
    """Raise an error if a column is wanted and no source has columns."""
    if column is not None and not any(source.has_columns for source in sources):
        raise UserError(
            f"`{setting}` {column}: {', '.join(named)} has no columns. Give csv, tsv, jsonl or "
            f"parquet files, or leave `{setting}` out"
        )


def find_sources(
    files: Iterable[str], spool: Path, encoding: str, layout: Layout | None = None
) -> list[Source]:
    """Find the files to read: files, files of folders, standard input and docstrings.

    A folder is searched recursively, in sorted order; a warning lists its unsupported files.
    Standard input, a text on each line, is copied into `spool`. Docstrings come first. Without
    `layout`, the first lines of a txt file decide whether it has paragraphs. `UserError` refuses a
    file that is missing or of an unknown kind, a folder without files to read, and the encoding.
    """
    try:
        "".encode(encoding)
    except (LookupError, UnicodeError):
        raise UserError(
            f"`encoding` {encoding}: unknown to Python. Give a name such as utf-8, latin-1 or gbk."
        ) from None
    files = dict.fromkeys(map(with_home, files))
    require_there(files)
    sources: list[Source] = []
    for file in files:
        if is_docstrings(file):
            sources.append(Source(Path(file.partition(":")[2]), file, DOCSTRINGS))
        elif file == "-":
            sources.append(_spool_standard_input(spool, encoding))
        elif os.path.isdir(file):
            sources += _folder_sources(Path(file), encoding)
        elif source := _source(Path(file), encoding):
            sources.append(source)
        else:
            raise UserError(f"{file}: unknown file type. Expected {_DOCUMENTS} or {_ROWS}.")
    sources.sort(key=lambda source: source.format != DOCSTRINGS)
    return [_with_layout(source, layout) for source in sources]


def listed(names: Sequence[str], most: int = 10) -> str:
    """Return the first names as text, and the number of the others.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def require_there(files: Iterable[str]) -> None:
    """Raise an error if a file or folder is missing, before any is read."""
    for file in files:
        there = os.path.isdir(file) or os.path.isfile(file) or file == "-" or is_docstrings(file)
        if not there:
            raise UserError(
                f"{file or '(empty)'}: no such file or folder. Give a path, - for standard input "
                "or, where a command reads them, docstrings."
            )


def file_source(path: Path) -> Source:
    """Return the source of one file of rows; refuse a missing file or an unknown ending."""
    if not os.path.isfile(path):
        raise UserError(f"{path}: no such file. Expected {_ROWS}.")
    source = _source(path, None)
    if source is None or source.format not in FORMATS:
        raise UserError(f"{path}: unknown file type. Expected {_ROWS}.")
    return source


_ROWS = f".{', .'.join(FORMATS)}, or a text one of them followed by {', '.join(COMPRESSION)}"
_DOCUMENTS = (
    f"a document ({', '.join(ending for ending in ENDINGS if ending[1:] not in FORMATS)}, a man "
    "page such as ls.1)"
)


def _source(path: Path, encoding: str | None) -> Source | None:
    """Return the source of a file, with the format from its name; `None` if it is unknown."""
    compression = COMPRESSION.get(path.suffix.lower())
    inner = path.with_suffix("") if compression else path
    ending = inner.suffix.lower().removeprefix(".")
    rows = ending in FORMATS and not (compression and ending == "parquet")
    format = ending if rows else format_of(inner.name)
    return Source(path, str(path), format, compression, encoding) if format else None


def _folder_sources(folder: Path, encoding: str) -> list[Source]:
    def refuse(error: OSError) -> None:
        raise UserError(f"{error.filename} cannot be listed: {error.strerror}.")

    paths: list[Path] = []
    outputs = []
    for root, below, names in os.walk(folder, onerror=refuse):
        if root != str(folder) and any(marks <= set(names) for marks in _OUTPUTS):
            outputs.append(root)
            below.clear()
        else:
            paths += (Path(root, name) for name in names)
    sources, ignored = [], []
    for path in sorted(paths):
        # Skip pipes, which have no end. Keep broken links: the reader of the format reports them.
        readable = (path.is_file() or not path.exists()) and path.stem.upper() not in _LICENCES
        source = _source(path, encoding) if readable else None
        if source is None:
            ignored.append(str(path))
        else:
            sources.append(replace(source, in_folder=True))
    ignored += outputs
    if not sources:
        raise UserError(
            f"{folder}: this folder has no file that isospace reads. Expected {_DOCUMENTS} or "
            f"{_ROWS}."
        )
    if ignored:
        why = "a licence, a result of isospace, or a format that isospace does not read"
        logger.warning("not read: %s: %s", listed(ignored, most=3), why)
    return sources


def _spool_standard_input(spool: Path, encoding: str) -> Source:
    path = spool / "stdin.txt"
    if sys.stdin is None:
        raise UserError("-: standard input is closed. Give a file, or pipe text into the command.")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Source(path, STANDARD_INPUT, "txt", encoding=encoding)


def _with_layout(source: Source, layout: Layout | None) -> Source:
    """Set the format of a txt file: "text" for paragraphs, "txt" for lines."""
    if source.format == "txt" and layout is None:
        try:
            layout = txt_layout(line for _, line in islice(lines_of(source), _LOOKED_AT))
        except UserError:
            layout = "paragraphs"  # the reader of documents says what is wrong
    paragraphs = source.format == "txt" and layout == "paragraphs"
    return replace(source, format="text") if paragraphs else source
