"""The decompressed bytes and decoded lines of a file, with errors that name the place."""

from __future__ import annotations

import codecs
import io
import lzma
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from isospace.corpus.documents import LARGEST, UnreadableDocument
from isospace.errors import UserError

FORMATS = ("txt", "jsonl", "csv", "tsv", "parquet")
"""Formats of files of rows; each is also the ending of the file's name."""
COMPRESSION = {".gz": "gzip", ".zst": "zstd", ".xz": "xz"}
"""Ending of a file's name -> compression."""
LINE_LIMIT = 1 << 24
"""Largest number of characters in a line. In txt files the rest of a longer line is skipped; in
other formats a longer line is an error."""

_UNREADABLE = (OSError, lzma.LZMAError, EOFError, UnicodeError)
"""Errors of a file that cannot be read or decompressed; UnicodeError: its name is no text."""
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


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
        delimiter: delimiter between fields that the user named; None: the first line decides.
        in_folder: true if the file was found in a folder that the user named.
    """

    path: Path
    name: str
    format: str
    compression: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    in_folder: bool = False

    @property
    def has_columns(self) -> bool:
        """True if the file has named columns."""
        return self.format in FORMATS and self.format != "txt"


def read_bytes(source: Source) -> bytes:
    """Return the decompressed content of a file.

    Raises:
        UnreadableDocument: the file cannot be read or decompressed, or has more than `LARGEST`
            bytes.
    """
    content = bytearray()
    try:
        with open_bytes(source) as raw:
            while chunk := raw.read(1 << 20):
                content += chunk
                if len(content) > LARGEST:
                    raise UnreadableDocument(f"It is larger than {LARGEST >> 20} MB. Split it.")
        return bytes(content)
    except _UNREADABLE as error:
        raise UnreadableDocument(f"It {_why_unreadable(source, error)}") from error


def is_blank(source: Source) -> bool:
    """Return true if a file holds only white space; false if it cannot be read."""
    try:
        with open_bytes(source) as raw:
            return not any(chunk.strip() for chunk in iter(partial(raw.read, 1 << 16), b""))
    except _UNREADABLE:
        return False


def read_lines(source: Source) -> list[str]:
    r"""Return the lines of a text file, split only at `\n`, without line ends.

    Raises:
        UserError: the file cannot be read or is not text.
    """
    return [line.rstrip("\n").removesuffix("\r") for _, line in lines_of(source, newline="\n")]


def with_marked_encoding(source: Source) -> Source:
    """Return the source, with UTF-16 as encoding if the file begins with its byte order mark.

    Raises:
        UserError: the file cannot be opened or decompressed.
    """
    marked = first_bytes(source, 2) in _UTF16_MARKS
    return replace(source, encoding="utf-16") if marked else source


def first_bytes(source: Source, count: int) -> bytes:
    """Return the first decompressed bytes of a file.

    Raises:
        UserError: the file cannot be opened or decompressed.
    """
    try:
        with open_bytes(source) as raw:
            return raw.read(count)
    except _UNREADABLE as error:
        raise cannot_be_read(source, error) from error


def whole_lines_of(source: Source, newline: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (line number, line); raise an error for a line longer than `LINE_LIMIT`."""
    for number, line in lines_of(source, newline):
        if len(line) == LINE_LIMIT:
            raise UserError(
                f"{source.name}:{number}: the line has {LINE_LIMIT:,} characters or more. Break "
                "it into shorter lines."
            )
        yield number, line


def lines_of(source: Source, newline: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) with line ends, each line cut at `LINE_LIMIT` characters."""
    encoding = source.encoding or "utf-8"
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-8-sig"  # else a byte order mark becomes part of the first column
    try:
        raw = open_bytes(source)
    except _UNREADABLE as error:
        raise cannot_be_read(source, error) from error
    try:
        with io.TextIOWrapper(raw, encoding=encoding, newline=newline) as text:
            number = 0
            while line := text.readline(LINE_LIMIT):
                number += 1
                yield number, line
                while len(line) == LINE_LIMIT and not line.endswith(("\n", "\r")):
                    line = text.readline(LINE_LIMIT)
    except UnicodeError as error:
        raise _undecodable(source, encoding) from error
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


def _undecodable(source: Source, encoding: str) -> UserError:
    """Return the error that names the first undecodable bytes; read the file again to find them."""
    name = encoding.removesuffix("-sig")
    decoder = codecs.getincrementaldecoder(name)()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    line, offset, start, rest = 1, 0, b"", b""
    with open_bytes(source) as raw:
        for chunk in chain(iter(partial(raw.read, 1 << 20), b""), [b""]):
            start = start or chunk[:2]
            begun = len(decoder.getstate()[0])  # bytes of a character begun in the last chunk
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
            f"`encoding` {likely_encoding(start, rest)}."
        )
    return UserError(f"{source.name}:{line}: not {name} at byte {offset} of the text. {advice}")


def likely_encoding(start: bytes, rest: bytes) -> str:
    r"""Guess the encoding from a file's first two bytes, and from bytes that are not UTF-8.

    >>> likely_encoding(b"Un", b"\xe9t\xe9"), likely_encoding(b"Un", b"\xe9t\xe9 \x96 chaud")
    ('latin-1', 'cp1252')
    """
    if start in _UTF16_MARKS:
        return "utf-16"
    # Bytes of quotes and dashes in cp1252 are control characters in Latin-1, which nobody writes.
    has_windows_signs = any(0x80 <= byte <= 0x9F for byte in rest)
    undefined = any(byte in b"\x81\x8d\x8f\x90\x9d" for byte in rest)
    return "cp1252" if has_windows_signs and not undefined else "latin-1"


def cannot_be_read(source: Source, error: Exception) -> UserError:
    """Return the error for a file that cannot be opened, decompressed or parsed."""
    return UserError(f"{source.name} {_why_unreadable(source, error)}")


def _why_unreadable(source: Source, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    kind = source.path.suffix if source.compression else source.format
    return f"cannot be read as {kind}: {reason}."
