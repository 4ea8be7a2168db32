"""The files that a user named, with their format (from the name) and their path on disk.

The decompressed bytes and decoded lines of a file, with errors that name the place.
"""

from __future__ import annotations

import codecs
import io
import logging
import lzma
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

import fsspec
import pyarrow as pa

from isospace.corpus.docstrings import DOCSTRINGS, is_docstrings
from isospace.corpus.formats import ENDINGS, TOO_LARGE, UnreadableDocument, format_of
from isospace.errors import UserError, first_line
from isospace.system.files import most_unpacked
from isospace.system.settings import with_home

logger = logging.getLogger(__name__)

FORMATS = ("txt", "jsonl", "csv", "tsv", "parquet")
"""Formats of files of rows; each is also the ending of the file's name."""
COMPRESSION = {".gz": "gzip", ".zst": "zstd", ".xz": "xz"}
"""Ending of a file's name -> compression."""

_UNREADABLE = (OSError, lzma.LZMAError, EOFError, UnicodeError)
"""Errors of a file that cannot be read or decompressed; UnicodeError: its name is no text."""
_ESCAPED = re.compile("[\udc80-\udcff]")  # bytes that were not decoded


@dataclass(frozen=True)
class Source:
    """One file to read.

    Attributes:
        path: path on disk.
        name: name in messages.
        format: format that selects the parser. A .txt file is "txt" for lines, "text" for
            paragraphs.
        compression: "gzip", "zstd", "xz" or None.
        encoding: encoding that the user named; None: UTF-8.
        in_folder: true if the file was found in a folder that the user named.
    """

    path: Path
    name: str
    format: str
    compression: str | None = None
    encoding: str | None = None
    in_folder: bool = False

    @property
    def has_columns(self) -> bool:
        """True if the file has named columns."""
        return self.format in FORMATS and self.format != "txt"


def read_bytes(source: Source) -> bytes:
    """Return the decompressed content of a file.

    Raises:
        UnreadableDocument: the file cannot be read or decompressed.
    """
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


def read_lines(source: Source) -> list[str]:
    r"""Return the lines of a text file, split only at `\n`, without line ends.

    Raises:
        UserError: the file cannot be read or is not text.
    """
    return [line.rstrip("\n").removesuffix("\r") for _, line in lines_of(source, newline="\n")]


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
    """Open the decompressed bytes of a file.

    Arrow's stream is used because it reports a truncated .zst file.
    """
    if source.compression == "xz":  # Arrow does not read xz
        return cast(BinaryIO, lzma.open(source.path))
    stream: BinaryIO = pa.input_stream(source.path, compression=source.compression)
    return stream


def _undecodable(source: Source, encoding: str, error: UnicodeError) -> UserError:
    """Return the error that names the first undecodable line; read the file again to find it."""
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
    return f"cannot be read as {kind}: {reason}."


STANDARD_INPUT = "standard input"
"""Name of the source for standard input."""

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
_WHY_IGNORED = "a licence, a result of isospace, or a format that isospace does not read"


def require_columns(
    sources: Iterable[Source], named: Iterable[str], setting: str, column: str | None
) -> None:
    """Raise an error if a column is wanted and no source has columns.

    If some sources have columns, the others are read without the column.
    """
    if column is not None and not any(source.has_columns for source in sources):
        raise UserError(
            f"`{setting}` {column}: {', '.join(named)} has no columns. Give csv, tsv, jsonl or "
            f"parquet files, or leave `{setting}` out"
        )


def find_sources(
    files: Iterable[str],
    spool: Path,
    encoding: str,
    documents: bool = False,
) -> list[Source]:
    """Find the files to read: files, files of folders, standard input, URLs and docstrings.

    A folder is searched recursively, in sorted order; a warning lists its unsupported files.
    Standard input is text with a sentence on each line. Standard input, and the file or folder that
    a URL names (any fsspec URL, such as s3://), are copied into `spool`. Docstrings come first.

    Raises:
        UserError: a file is missing or of an unknown kind, a folder has nothing to read, a URL
            cannot be read, or the encoding is unknown.
    """
    _check_encoding(encoding)
    files = dict.fromkeys(map(with_home, files))
    require_there(files)
    sources: list[Source] = []
    for file in files:
        if is_docstrings(file):
            sources.append(Source(Path(file.partition(":")[2]), file, DOCSTRINGS))
        elif file == "-":
            sources.append(_spool_standard_input(spool, encoding))
        elif "://" in file:
            for name, copy in _spool_url(file, spool, documents):
                source = file_source(copy, encoding, documents, name)
                sources.append(replace(source, in_folder=name != file))
        elif os.path.isdir(file):
            sources += _folder_sources(Path(file), encoding, documents)
        else:
            sources.append(file_source(Path(file), encoding, documents))
    return sorted(sources, key=lambda source: source.format != DOCSTRINGS)


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
        there = "://" in file or os.path.isdir(file) or os.path.isfile(file)
        if not (there or file == "-" or is_docstrings(file)):
            raise UserError(
                f"{file or '(empty)'}: no such file or folder. Give a path, a URL, - for standard "
                "input or, where a command reads them, docstrings."
            )


def file_source(
    path: Path, encoding: str | None = None, documents: bool = False, name: str | None = None
) -> Source:
    """Return the source of one file, with the format from its name; `name` is its URL, if any.

    Raises:
        UserError: the file is missing, or its ending is unknown.
    """
    if not os.path.isfile(path):
        raise UserError(f"{path}: no such file. Expected {_supported(documents)}.")
    source = _source(path, encoding, documents)
    if source is None:
        raise UserError(f"{name or path}: unknown file type. Expected {_supported(documents)}.")
    return replace(source, name=name or source.name)


def _check_encoding(encoding: str) -> None:
    try:
        "".encode(encoding)
    except (LookupError, UnicodeError):
        raise UserError(
            f"`encoding` {encoding}: unknown to Python. Give a name such as utf-8, latin-1, "
            "utf-16 or gbk."
        ) from None


def _supported(documents: bool) -> str:
    formats = f".{', .'.join(FORMATS)}, or a text one of them followed by .gz, .zst or .xz"
    if documents:
        others = ", ".join(ending for ending in ENDINGS if ending[1:] not in FORMATS)
        return f"a document ({others}, a man page such as ls.1) or {formats}"
    return formats


def _source(path: Path, encoding: str | None, documents: bool) -> Source | None:
    """Return the source of a file, with the format from its name; `None` if it is unknown."""
    compression = COMPRESSION.get(path.suffix.lower())
    inner = path.with_suffix("") if compression else path
    ending = inner.suffix.lower().removeprefix(".")
    if ending in FORMATS and not (compression and ending == "parquet"):
        return Source(path, str(path), ending, compression, encoding)
    document = format_of(inner.name) if documents else None
    return Source(path, str(path), document, compression, encoding) if document else None


def _folder_sources(folder: Path, encoding: str, documents: bool) -> list[Source]:
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
        source = _source(path, encoding, documents) if readable else None
        if source is None:
            ignored.append(str(path))
        else:
            sources.append(replace(source, in_folder=True))
    ignored += outputs
    if not sources:
        raise UserError(
            f"{folder}: this folder has no file that isospace reads. Expected "
            f"{_supported(documents)}."
        )
    if ignored:
        logger.warning("not read: %s: %s", listed(ignored, most=3), _WHY_IGNORED)
    return sources


def _spool_standard_input(spool: Path, encoding: str) -> Source:
    path = spool / "stdin.txt"
    if sys.stdin is None:
        raise UserError("-: standard input is closed. Give a file, or pipe text into the command.")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Source(path, STANDARD_INPUT, "txt", encoding=encoding)


def _spool_url(url: str, spool: Path, documents: bool) -> list[tuple[str, Path]]:
    """Copy the file, or the supported files of the folder, that a URL names."""
    folder = spool / f"url-{len(list(spool.glob('url-*')))}"
    try:
        store, place = fsspec.core.url_to_fs(url)
        names = {place: posixpath.basename(place)}
        # To fsspec every page of a web server is a folder of the pages that it links to.
        if (url.endswith("/") or not url.startswith("http")) and store.isdir(place):
            found = {path: posixpath.relpath(path, place) for path in sorted(store.find(place))}
            names = {
                path: name
                for path, name in found.items()
                if not name.startswith("../") and _source(Path(name), None, documents)
            }
        copies = [folder / name for name in names.values()]
        for copy in copies:
            copy.parent.mkdir(parents=True, exist_ok=True)
        store.get(list(names), list(map(str, copies)))
    except Exception as error:  # every store has errors of its own
        raise UserError(f"{url} cannot be read: {first_line(error)}.") from error
    if not names:
        raise UserError(f"{url}: no file that isospace reads. Expected {_supported(documents)}.")
    if list(names) == [place]:
        return [(url, folder / names[place])]
    return [(f"{url.rstrip('/')}/{name}", folder / name) for name in names.values()]
