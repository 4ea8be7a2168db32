"""The only reader of rows from users' files: streaming, with line numbers.

`read_records` reads named columns. `read_rows` yields whole rows, for callers that must first find
out what the columns are.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from isospace.corpus.sources import FORMATS, Source, cannot_be_read, lines_of
from isospace.errors import UserError, number_of

_ROWS_AT_ONCE = 4096  # batch size for Parquet
_LARGEST_FIELD = (1 << 31) - 1  # characters

GENERATED_BY = "generated_by"
"""Column that names the language model that wrote the query of a row. Such rows are only for
training, never for validation or test."""

Cells: TypeAlias = "list[Any] | dict[str, Any]"
"""Cells of a row: a list, or column -> cell if the row itself names its columns."""


@dataclass(frozen=True)
class Column:
    """A column to read, and the setting that messages mention, such as "`id_column`"."""

    name: str
    setting: str
    text: bool = True
    """True if each value must be a text or missing; else values keep the file's types."""
    required: bool = True
    """True if every JSON object must have the column."""
    optional: bool = False
    """True if a file may lack the column; its values are then missing."""


Record: TypeAlias = "tuple[int, tuple[Any, ...]]"
"""The line where a row begins, from 1 (in Parquet files the number of the row), and its values.

A missing value is `None`. A blank line gives "" in text columns and `None` in others.
"""


def unreadable(sources: Sequence[Source], columns: Sequence[Column]) -> dict[str, UserError]:
    """Return name -> error for the files of rows to leave out, after reading the start of each.

    `UserError` refuses a file that the user named, and folders in which no file is left.
    """
    found = {}
    for source in sources:
        if source.format in FORMATS:
            try:
                if source.path.is_file() and not source.path.stat().st_size:
                    raise UserError(f"{source.name} is empty. Give a file with a sentence.")
                next(read_records(source, columns), None)
            except UserError as error:
                if not source.in_folder:
                    raise
                found[source.name] = error
    if found and len(found) == len(sources):
        raise next(iter(found.values()))
    return found


def read_records(source: Source, columns: Sequence[Column]) -> Iterator[Record]:
    """Yield the line number of each row, in order, and its values in the wanted columns.

    A txt file has no columns: its lines are the values of the first column. `UserError` refuses a
    wrong row.
    """
    if source.format == "txt":
        absent = (None,) * (len(columns) - 1)
        for line, text in lines_of(source):
            yield line, (text.rstrip("\n"), *absent)
        return
    blank = tuple("" if column.text else None for column in columns)
    rows = _rows(source, columns)
    header: list[Any] = []
    if source.format in ("csv", "tsv"):
        header = list(next(rows, (1, None))[1] or [])
        advice = " The first line must name the columns."
        _require_columns(f"{source.name}:1", columns, header, advice)
    for line, cells in rows:
        place = f"{source.name}:{line}"
        if cells is None:
            yield line, blank
            continue
        if isinstance(cells, list):
            if not header:
                raise UserError(
                    f'{place}: expected a JSON object with the key "{columns[0].name}".'
                )
            cells = _by_name(place, header, cells)
        yield line, tuple(_value(place, cells, column) for column in columns)


def read_rows(
    source: Source, is_header: Callable[[Sequence[Any]], bool] = lambda cells: False
) -> Iterator[tuple[int, Cells]]:
    """Yield (line number, cells) of every row that is not blank, without the header.

    Lines of a txt file are split at tabs. Rows of jsonl are arrays or objects. With a header, cells
    are column -> value. `is_header` is called with the first row of csv, tsv and txt files only.
    `UserError` refuses a wrong row.
    """
    header: list[Any] = []
    first = source.format != "jsonl"
    for line, cells in _rows(source):
        place = f"{source.name}:{line}"
        if isinstance(cells, dict):
            yield line, cells
        elif cells is not None and (source.format == "jsonl" or any(map(str.strip, cells))):
            if first and is_header(cells):
                header = cells
                for name in header:
                    _require_once(place, name, header)
            else:
                yield line, _by_name(place, header, cells) if header else cells
            first = False


def _rows(
    source: Source, columns: Sequence[Column] | None = None
) -> Iterator[tuple[int, Cells | None]]:
    """Yield (line number, cells) of every row, including a header; `None` for a blank line.

    Only the wanted `columns` of a Parquet file are read; default: all.
    """
    if source.format == "parquet":
        yield from _parquet_rows(source, columns)
    elif source.format == "jsonl":
        yield from _json_rows(source)
    else:
        yield from _table_rows(source)


def _by_name(place: str, header: list[str], cells: list[Any]) -> dict[str, Any]:
    """Return column -> cell of a row; refuse a row of another width than the header."""
    if len(cells) != len(header):
        raise UserError(
            f"{place}: {number_of(len(cells), 'fields')}, the header has "
            f"{len(header)} ({', '.join(header)[:300]}). Mend this line; in csv files, put quotes "
            '("...") around a text that contains the delimiter.'
        )
    return dict(zip(header, cells, strict=True))


def _value(place: str, cells: dict[str, Any], column: Column) -> Any:
    if column.required and not column.optional and column.name not in cells:
        raise _no_column(place, column, cells)
    value = cells.get(column.name)
    if column.text and not isinstance(value, str | None):
        found = json.dumps(value, ensure_ascii=False, default=str)[:80]
        raise UserError(
            f'{place}: "{column.name}" is {found}, expected a string. Name another column with '
            f"{column.setting}."
        )
    return value


def _parquet_rows(
    source: Source, columns: Sequence[Column] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number of the row, column -> cell)."""
    first = 1
    try:
        with pq.ParquetFile(source.path) as file:
            names = file.schema_arrow.names
            if columns is not None:
                _require_columns(source.name, columns, names)
                names = [name for name in names if name in {column.name for column in columns}]
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names):
                yield from enumerate(batch.to_pylist(), first)
                first += len(batch)
    except (OSError, pa.ArrowException, ValueError, OverflowError) as error:
        # A text is not UTF-8, or a date is outside Python's range.
        raise cannot_be_read(source, error) from error


def _json_rows(source: Source) -> Iterator[tuple[int, Cells | None]]:
    """Yield (line number, object or array), with `None` for a blank line."""
    for number, line in lines_of(source):
        if not line.strip():
            yield number, None
            continue
        place = f"{source.name}:{number}"
        try:
            parsed = json.loads(line.lstrip("\ufeff"))
        except (ValueError, RecursionError) as error:  # ValueError: also a number that is too long
            raise UserError(
                f"{place}: not valid JSON ({error}). Put one JSON object on each line, such as "
                '{"text": "A sentence."}.'
            ) from None
        if not isinstance(parsed, dict | list):
            raise UserError(f"{place}: expected a JSON object, not {line.strip()[:40]!r}.")
        yield number, parsed


def _table_rows(source: Source) -> Iterator[tuple[int, list[str] | None]]:
    """Yield (line number, cells) of csv or tab-separated text, with `None` for a blank line."""
    csv.field_size_limit(_LARGEST_FIELD)  # for the whole process; the default is 128 KiB
    lines = (line for _, line in lines_of(source, newline=""))
    first = next(lines, "")
    table = chain([first], lines)
    if source.format == "csv":
        # Without a comma, the first line has another delimiter.
        delimiter = next((sign for sign in ",;\t|" if sign in first), ",")
        rows = csv.reader(table, delimiter=delimiter, strict=True)
    else:
        # Tab-separated text usually has no quoting, so a quote is part of the text.
        rows = csv.reader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
    begin = 1
    try:
        for cells in rows:
            yield begin, cells or None
            begin = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{source.name}:{begin}: not valid {source.format} ({error}).") from error


def _require_columns(
    place: str, columns: Sequence[Column], names: Sequence[str], advice: str = ""
) -> None:
    """Raise an error if a column is missing, with `advice`, or occurs twice."""
    for column in columns:
        if column.name in names:
            _require_once(place, column.name, names)
        elif not column.optional:
            raise UserError(f"{_no_column(place, column, names)}{advice}")


def _require_once(place: str, name: str, names: Sequence[str]) -> None:
    if names.count(name) > 1:
        raise UserError(f'{place}: several columns are called "{name}". Rename all but one.')


def _no_column(place: str, column: Column, columns: Iterable[str]) -> UserError:
    names = ", ".join(columns)[:300]
    return UserError(
        f'{place}: no column "{column.name}". Columns: {names}. Name one with {column.setting}.'
    )


def finite_number(cell: Any) -> float | None:
    """Return a cell as a finite number, or `None`."""
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isinstance(cell, bool) or not math.isfinite(number) else number
