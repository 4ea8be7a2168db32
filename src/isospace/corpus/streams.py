"""The decompressed bytes and decoded lines of a file, with errors that name the place."""

from __future__ import annotations

import codecs
import io
import lzma
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from isospace.corpus.documents import TOO_LARGE, UnreadableDocument
from isospace.errors import UserError, first_line
from isospace.system.files import most_unpacked

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
