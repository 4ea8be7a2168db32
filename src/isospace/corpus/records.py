"""The only reader of rows from users' files: streaming, with line numbers.

`read_records` reads named columns, all of them in one pass. `read_rows` yields whole rows, for
callers that must first find out what the columns are. Memory holds one line, or one batch of
Parquet rows. Document files (`corpus/documents.py`) have no rows.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from isospace.corpus.streams import (
    FORMATS,
    LINE_LIMIT,
    Source,
    cannot_be_read,
    first_bytes,
    lines_of,
    whole_lines_of,
)
from isospace.errors import UserError
from isospace.statistics.counts import number_of
from isospace.system.files import atomic_path, expanded

_ROWS_AT_ONCE = 4096  # batch size for Parquet
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_STRINGS = ("string", "large_string", "string_view")  # Arrow types

GENERATED_BY = "generated_by"
"""Column that names the language model that wrote the query of a row. Such rows are only for
training, never for validation or test."""

Cells: TypeAlias = "list[Any] | dict[str, Any]"
"""Cells of a row: a list, or column -> cell if the row itself names its columns."""


@dataclass(frozen=True)
class Column:
    """A column to read.

    Attributes:
        name: name of the column in the file.
        setting: the setting that messages mention, such as "`id_column`".
        text: true if each value must be a text or missing; else values keep the file's types.
        required: true if every JSON object must have the column.
        optional: true if a file may lack the column; its values are then missing.
    """

    name: str
    setting: str
    text: bool = True
    required: bool = True
    optional: bool = False


Record: TypeAlias = "tuple[int, tuple[Any, ...]]"
"""The line where a row begins, from 1 (in Parquet files the number of the row), and its values.

There is one value for each column; `None` if it is missing. A blank line gives "" in text columns
and `None` in others. In a file without columns the first value is the line.
"""


def unreadable(sources: Sequence[Source], columns: Sequence[Column]) -> dict[str, UserError]:
    """Return name -> error for the files of rows to leave out, after reading the start of each.

    Folders often hold files that are empty, damaged or lack a column.

    Raises:
        UserError: a file that the user named cannot be read, or no file is left.
    """
    found = {}
    for source in sources:
        if source.format in FORMATS:
            try:
                if not first_bytes(source, 1):
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

    A txt file has no columns: its lines are the values of the first column.

    Raises:
        UserError: a row is wrong; the message names file, line and what was expected.
    """
    if source.format == "parquet":
        return _parquet_records(source, columns)
    if source.format == "jsonl":
        return _json_records(source, columns)
    if source.format == "txt":
        return _line_records(source, columns)
    return _table_records(source, columns)


def read_rows(source: Source) -> Iterator[tuple[int, Cells]]:
    """Yield (line number, cells) of every row that is not blank, including a header.

    Lines of a txt file are split at tabs. Rows of jsonl are arrays or objects.

    Raises:
        UserError: a row is wrong; the message names file and line.
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


def read_named_rows(
    source: Source, is_header: Callable[[Sequence[Any]], bool]
) -> Iterator[tuple[int, Cells]]:
    """Yield (line number, cells) of the rows below the header.

    With a header, cells are column -> value. `is_header` is called with the first row of csv, tsv
    and txt files only.

    Raises:
        UserError: a row is wrong, for example longer than the header; the message names file and
            line.
    """
    header: list[Any] = []
    for number, (line, cells) in enumerate(read_rows(source)):
        if isinstance(cells, dict):
            yield line, cells
        elif number == 0 and source.format != "jsonl" and is_header(cells):
            header = cells
            twice = [name for name in header if header.count(name) > 1]
            if twice:
                raise UserError(
                    f'{source.name}:{line}: several columns are called "{twice[0]}". Rename all '
                    "but one"
                )
        elif not header:
            yield line, cells
        elif len(cells) != len(header):
            raise UserError(
                f"{source.name}:{line}: {number_of(len(cells), 'columns')}, expected "
                f"{len(header)} as in the header ({', '.join(header)}). Mend this line"
            )
        else:
            yield line, dict(zip(header, cells, strict=True))


def _line_records(source: Source, columns: Sequence[Column]) -> Iterator[Record]:
    absent = (None,) * (len(columns) - 1)
    for number, line in lines_of(source):
        yield number, (line.rstrip("\n"), *absent)


def _json_records(source: Source, columns: Sequence[Column]) -> Iterator[Record]:
    blank = _blank(columns)
    for number, parsed in _json_rows(source):
        if parsed is None:
            yield number, blank
            continue
        place = f"{source.name}:{number}"
        if not isinstance(parsed, dict):
            raise UserError(f'{place}: expected a JSON object with the key "{columns[0].name}".')
        yield number, tuple(_json_value(place, parsed, column) for column in columns)


def _json_value(place: str, parsed: dict[str, Any], column: Column) -> Any:
    if column.required and column.name not in parsed:
        raise _no_column(place, column, parsed)
    value = parsed.get(column.name)
    if column.text and not isinstance(value, str | None):
        raise UserError(
            f'{place}: "{column.name}" is {json.dumps(value)[:80]}, expected a string. Name '
            f"another column with {column.setting}."
        )
    return value


def _table_records(source: Source, columns: Sequence[Column]) -> Iterator[Record]:
    rows = _table_rows(source)
    _, header = next(rows, (1, []))
    for column in columns:
        _require_column(f"{source.name}:1", column, header)
    places = [header.index(one.name) if one.name in header else -1 for one in columns]
    blank = _blank(columns)
    for line, cells in rows:
        if cells and (len(cells) <= max(places) or len(cells) > len(header)):
            raise _other_width(source, line, cells, header)
        yield line, tuple(cells[x] if x >= 0 else None for x in places) if cells else blank


def _other_width(source: Source, line: int, cells: list[str], header: list[str]) -> UserError:
    """Return the error for a row with fewer or more fields than the header."""
    width = number_of(len(cells), "fields")
    problem = f"{source.name}:{line}: {width}, the header has {len(header)}."
    if len(cells) < len(header):
        return UserError(problem)
    quotes = 'Put quotes ("...") around a field' if source.format == "csv" else "Change a text"
    return UserError(f"{problem} {quotes} that contains the delimiter, or name another delimiter.")


def _blank(columns: Sequence[Column]) -> tuple[Any, ...]:
    return tuple("" if column.text else None for column in columns)


def _parquet_records(source: Source, columns: Sequence[Column]) -> Iterator[Record]:
    first = 1
    try:
        with pq.ParquetFile(source.path) as file:
            schema = file.schema_arrow
            for column in columns:
                _check_parquet_column(source, column, schema)
            names = list(dict.fromkeys(one.name for one in columns if one.name in schema.names))
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names):
                values = [_parquet_values(source, batch, one) for one in columns]
                yield from enumerate(zip(*values, strict=True), first)
                first += len(batch)
    except (OSError, pa.ArrowException, UnicodeError) as error:  # UnicodeError: a column's name
        raise cannot_be_read(source, error) from error


def _check_parquet_column(source: Source, column: Column, schema: pa.Schema) -> None:
    _require_column(source.name, column, schema.names)
    if column.name not in schema.names:
        return
    kind = schema.field(column.name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if column.text and str(kind) not in _STRINGS:
        raise UserError(
            f'{source.name}: column "{column.name}" has the type {kind}, expected string. Name '
            f"another column with {column.setting}."
        )


def _parquet_values(source: Source, batch: pa.RecordBatch, column: Column) -> list[Any]:
    if column.name not in batch.schema.names:  # it is optional
        return [None] * len(batch)
    try:
        values: list[Any] = batch.column(column.name).to_pylist()
    except (ValueError, OverflowError) as error:
        # A text is not UTF-8, or a date is outside Python's range.
        raise UserError(
            f'{source.name}: column "{column.name}" cannot be read ({error}). Mend the file, or '
            f"name another column with {column.setting}."
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
        # Every column is read, so any column can have a date outside Python's range.
        raise cannot_be_read(source, error) from error


def _json_rows(source: Source) -> Iterator[tuple[int, Cells | None]]:
    """Yield (line number, object or array), with `None` for a blank line."""
    for number, line in whole_lines_of(source):
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


def _table_rows(source: Source) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of csv or tab-separated text."""
    csv.field_size_limit(LINE_LIMIT)  # for the whole process; the default is 128 KiB
    # The csv module of Python 3.10 refuses NULs.
    lines = (line.replace("\0", "") for _, line in whole_lines_of(source, newline=""))
    first = next(lines, "")
    delimiter = source.delimiter or _delimiter(source.format, first)
    table = chain([first], lines)
    if source.format == "csv":
        rows = csv.reader(table, delimiter=delimiter, strict=True)
    else:
        # Tab-separated text usually has no quoting, so a quote is part of the text.
        rows = csv.reader(table, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    begin = 1
    try:
        for cells in rows:
            yield begin, cells
            begin = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{source.name}:{begin}: not valid {source.format} ({error}).") from error


def _delimiter(format: str, first: str) -> str:
    """Return the format's delimiter; for csv without a comma in line 1, a delimiter found there."""
    own = _DELIMITERS.get(format, "\t")
    others = (sign for sign in ";\t|" if format == "csv" and own not in first and sign in first)
    return next(others, own)


def _require_column(place: str, column: Column, columns: Sequence[str]) -> None:
    """Raise an error if a column is missing or occurs twice."""
    if column.name not in columns:
        if column.optional:
            return
        raise _no_column(place, column, columns)
    if columns.count(column.name) > 1:
        raise UserError(
            f'{place}: several columns are called "{column.name}". Rename them, or name another '
            f"with {column.setting}."
        )


def _no_column(place: str, column: Column, columns: Iterable[str]) -> UserError:
    names = ", ".join(str(name) for name in columns)[:300]
    advice = f"Name one with {column.setting}."
    if blank := next((name for name in columns if name.strip() == column.name), None):
        advice = f'There is one with blanks: "{blank}".'
    return UserError(f'{place}: no column "{column.name}". Columns: {names}. {advice}')


def keep_texts(texts: Iterable[str], path: Path | str) -> Path:
    r"""Write texts to a file one by one, unless the file exists.

    A script that trains on the texts of a generator can then be run again after a kill. The file
    appears whole or not at all, and an existing file is used without calling the generator.

    Args:
        texts: any number of texts; only one is in memory at a time.
        path: a name that ends in .jsonl; the setting `corpus` and all commands can read the file.

    Returns:
        The path.

    Raises:
        UserError: the path has another ending, or an item is not a string.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> keep_texts((f"Sentence {n}." for n in range(2)), f"{folder}/texts.jsonl").read_text()
        '{"text": "Sentence 0."}\n{"text": "Sentence 1."}\n'
    """
    path = expanded(path)
    if path.suffix != ".jsonl":
        raise UserError(f"{path}: the name must end in .jsonl")
    if path.exists():
        return path
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts, 1):
            if not isinstance(text, str):
                raise UserError(f"text {number} is a {type(text).__name__}, expected a string")
            file.write(json.dumps({"text": text}) + "\n")
    return path
