"""Files as rows of cells with their line numbers, and text files as lines.

csv (quoted), tsv and txt (tabs, no quoting), jsonl (arrays or objects) and parquet; all but parquet
may end in .gz or .zst.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from isospace.corpus.readers import LINE_LIMIT
from isospace.errors import UserError

Row: TypeAlias = "list[Any] | dict[str, Any]"
"""Cells by place, or by column where the file names its columns."""

_COMPRESSION = {".gz": "gzip", ".zst": "zstd"}


def read_rows(path: Path, is_header: Callable[[Sequence[str]], bool]) -> list[tuple[int, Row]]:
    """Every row that is neither blank nor a header, with its line (of parquet: its number).

    Args:
        path: the file; text is UTF-8.
        is_header: whether the first row of csv, tsv or txt names the columns.

    Raises:
        UserError: naming file and line, for what cannot be read.
    """
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSION else path
    form = plain.suffix.lower()
    expected = "rows in csv, tsv, txt (tabs), jsonl (each perhaps with .gz or .zst) or parquet"
    if path.suffix.lower() == ".parquet":
        return list(enumerate(_parquet_rows(path), start=1))
    if form not in (".csv", ".tsv", ".txt", ".jsonl"):
        raise UserError(f"{path}: the ending {path.suffix!r} is not known; expected {expected}")
    lines = read_lines(path, expected)
    if form == ".jsonl":
        return list(_json_rows(path, lines))
    return list(_table_rows(path, lines, is_header, quoted=form == ".csv"))


def read_lines(path: Path, expected: str) -> list[str]:
    r"""Lines of a UTF-8 file, cut at `\n` only, so that line numbers are those of an editor.

    Args:
        path: the file, which may end in .gz or .zst; a byte-order mark is dropped.
        expected: what should be there, for the message.

    Raises:
        UserError: where the file is missing, damaged or not UTF-8.
    """
    try:
        compression = _COMPRESSION.get(path.suffix.lower())
        with path.open("rb") as file, pa.input_stream(file, compression=compression) as stream:
            data: bytes = stream.read()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot read {path} ({reason}); expected {expected}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: the bytes are not UTF-8; expected {expected}") from error
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def sentevals_root(folder: Path, names: Sequence[str]) -> Path | None:
    """Which of a folder, its `downstream` and its parent holds one of these folders of SentEval."""
    candidates = (folder / "downstream", folder, folder.parent)
    return next((c for c in candidates if any((c / name).is_dir() for name in names)), None)


def columns_in_words(number: int) -> str:
    """How many columns there are.

    >>> columns_in_words(1), columns_in_words(3)
    ('1 column', '3 columns')
    """
    return f"{number} column{'' if number == 1 else 's'}"


def _table_rows(
    path: Path, lines: list[str], is_header: Callable[[Sequence[str]], bool], *, quoted: bool
) -> Iterator[tuple[int, Row]]:
    csv.field_size_limit(LINE_LIMIT)  # for the whole process; the default is 128 KiB
    if quoted:
        reader = csv.reader(io.StringIO("\n".join(lines), newline=""), strict=True)
    else:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    header: list[str] = []
    start = 1
    try:
        for cells in reader:
            if start == 1 and is_header(cells):
                header = cells
            elif any(cell.strip() for cell in cells):
                if header and len(cells) != len(header):
                    raise UserError(
                        f"{path}:{start}: {columns_in_words(len(cells))}; expected {len(header)} "
                        f"as in the header ({', '.join(header)})"
                    )
                yield start, dict(zip(header, cells, strict=True)) if header else cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}:{start}: not a well-formed table row ({error})") from error


def _json_rows(path: Path, lines: list[str]) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # a number can have too many digits, too
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise UserError(f"{path}:{number}: not JSON ({reason})") from error
        if not isinstance(row, dict | list):
            raise UserError(f"{path}:{number}: expected a JSON object or array, not {line[:40]!r}")
        yield number, row


def _parquet_rows(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as file, pq.ParquetFile(file) as parquet:
            rows: list[dict[str, Any]] = parquet.read().to_pylist()
    except (OSError, pa.ArrowException, ValueError, OverflowError) as error:
        # Every column is read: a date that Python does not have is in the way too.
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        expected = "a parquet file of texts and numbers"
        raise UserError(f"cannot read {path} ({reason}); expected {expected}") from error
    return rows
