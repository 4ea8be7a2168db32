"""Metadata columns: type inference from the first files, conversion of values, and filters.

isospace has its own inference, because pyarrow.csv and pandas lose information. They read the code
02139 as the number 2139, and round an id of twenty digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from isospace.errors import UserError, first_line
from isospace.system.unicode import without_surrogates

ColumnType = Literal["str", "int", "float", "bool"]
Value: TypeAlias = str | int | float | bool | None

_RESERVED = ("id", "text", "vector", "rank", "cosine", "bm25", "hybrid")
_WORDS: dict[ColumnType, str] = {
    "str": "text",
    "int": "whole numbers",
    "float": "numbers",
    "bool": "true or false",
}

# Digits with a leading zero (007, 02139), or too many for 64 bits, are text and not a number.
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,18})")
_FRACTION = re.compile(r"-?(0|[1-9]\d*)(\.\d+([eE][+-]?\d+)?|[eE][+-]?\d+)")


def check_names(names: Iterable[str]) -> None:
    """Refuse column names that the database reserves or cannot store."""
    for name in names:
        if name.lower() in _RESERVED or name.startswith("_") or not name or "." in name:
            raise UserError(
                f'column "{name}": this name is not allowed. Rename it in the file: not '
                f"{', '.join(_RESERVED)}, no dot, no leading underscore"
            )


def plain(value: Any, cell: bool) -> Value:
    """Return a value of a file as one of the four types; `None` for a missing value.

    NaN and infinity count as missing, because JSON has no such numbers. Values of other types, such
    as dates, become text.

    `cell` is true for a CSV or TSV cell, whose text may be a number.

    >>> plain("2001", cell=True), plain("2001", cell=False), plain("007", cell=True)
    (2001, '2001', '007')
    >>> plain("9" * 18, cell=True), plain("9" * 19, cell=True)
    (999999999999999999, '9999999999999999999')
    """
    if cell and isinstance(value, str):
        value = _number(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    return without_surrogates(str(value))


def _number(cell: str) -> Value:
    """Return a CSV or TSV cell as a number if it is one, or else as text; empty: `None`."""
    if _WHOLE.fullmatch(cell):
        return int(cell)
    if _FRACTION.fullmatch(cell) and math.isfinite(float(cell)):
        return float(cell)
    return cell or None


class TypeGuess:
    """Column types inferred from values, one row at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        self._types: dict[str, ColumnType | None] = dict.fromkeys(names)

    def see(self, metadata: Mapping[str, Any], cell: bool) -> None:
        """Widen the types for one row; the arguments are those of `fit`."""
        for name, raw in metadata.items():
            value = plain(raw, cell)
            if value is not None:
                self._types[name] = _widest(self._types[name], _type(value))

    @property
    def columns(self) -> dict[str, ColumnType]:
        """Column -> narrowest type that holds all its values; a column must have values."""
        columns: dict[str, ColumnType] = {}
        for name, type_ in self._types.items():
            if type_ is None:
                raise UserError(f'`keep` {name}: no row has a value in column "{name}"')
            columns[name] = type_
        return columns


def fit(
    columns: Mapping[str, ColumnType], metadata: Mapping[str, Any], where: str, cell: bool = False
) -> dict[str, Value]:
    """Convert the metadata of a row to the column types; missing values become `None`.

    Examples:
        >>> fit({"a": "str", "b": "float"}, {"a": "1.50", "b": "3"}, "row 1", cell=True)
        {'a': '1.50', 'b': 3.0}
    """
    if unknown := set(metadata) - set(columns):
        have = ", ".join(columns) or "none"
        raise UserError(f'{where}: the index has no column "{min(unknown)}". Columns: {have}')
    values: dict[str, Value] = {}
    for name, type_ in columns.items():
        raw = metadata.get(name)
        value = plain(raw, cell)
        if value is not None and type_ == "str":
            value = str(plain(raw, cell=False))  # 1.50 keeps its last digit
        elif value is not None and _widest(type_, _type(value)) != type_:
            raise UserError(f'{where}: column "{name}" has {value!r}, expected {_WORDS[type_]}')
        values[name] = float(value) if type_ == "float" and value is not None else value
    return values


def _type(value: str | int | float | bool) -> ColumnType:
    if isinstance(value, bool):  # before int: in Python, a bool is an int
        return "bool"
    if isinstance(value, int):
        return "int"
    return "float" if isinstance(value, float) else "str"


def _widest(a: ColumnType | None, b: ColumnType) -> ColumnType:
    if a is None or a == b:
        return b
    return "float" if {a, b} == {"int", "float"} else "str"


def condition_of(where: str | None) -> str | None:
    """Return a filter in parentheses, since LanceDB ignores an end that it cannot parse.

    Without them, it would read `year > 3 ADN kind = 'a'` as `year > 3`.
    """
    if where is None:
        return None
    if not where.strip():
        raise UserError("the filter is empty. Give an SQL condition, such as id = 'a'")
    return f"({without_surrogates(where)}\n)"  # on a line of its own: it may end in a comment


def bad_filter(where: str, error: Exception, columns: Mapping[str, ColumnType]) -> UserError:
    """Return the error for an invalid filter, with the columns that a filter can use."""
    usable: dict[str, ColumnType] = {"id": "str", "text": "str", **columns}
    names = ", ".join(f"{name} ({_WORDS[type_]})" for name, type_ in usable.items())
    return UserError(
        f"filter {where!r} ({first_line(error)}): give an SQL condition on the columns {names}, "
        "such as id = 'a'"
    )
