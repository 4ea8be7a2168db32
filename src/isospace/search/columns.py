"""Types of the metadata columns of an index.

isospace infers the types itself, because pyarrow.csv and pandas lose information. They read the
code 02139 as the number 2139, and round an id of twenty digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Set as AbstractSet
from typing import Any, Literal, TypeAlias, cast

from isospace.errors import UserError
from isospace.system.unicode import without_surrogates

ColumnType = Literal["str", "int", "float", "bool"]
Value: TypeAlias = str | int | float | bool | None

_RESERVED = ("id", "text", "vector", "rank", "cosine", "bm25", "hybrid")
TYPE_WORDS: dict[ColumnType, str] = {
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
                f'column "{name}": rename it in the file. Not allowed are '
                f"{', '.join(_RESERVED)}, a dot, and a leading underscore"
            )


def plain(value: Any, cell: bool) -> Value:
    """Return a value of a file as one of the four types.

    A missing value is `None`, and so are NaN and infinity, because JSON has no such numbers. Values
    of other types, such as dates, become text. Only a `cell` of CSV or TSV is text that may be a
    number.

    >>> plain("2001", cell=True), plain("2001", cell=False), plain("007", cell=True)
    (2001, '2001', '007')
    >>> plain("9" * 18, cell=True), plain("9" * 19, cell=True)
    (999999999999999999, '9999999999999999999')
    """
    if cell and value == "":
        return None
    if cell and isinstance(value, str):
        if _WHOLE.fullmatch(value):
            value = int(value)
        elif _FRACTION.fullmatch(value) and math.isfinite(float(value)):
            value = float(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    return without_surrogates(str(value))


def column_type(types: AbstractSet[str]) -> ColumnType:
    """Return the narrowest column type for values of some Python types, by name."""
    if types == {"int", "float"}:
        return "float"
    return cast(ColumnType, min(types)) if len(types) == 1 else "str"


def fit(
    columns: Mapping[str, ColumnType], metadata: Mapping[str, Any], where: str, cell: bool = False
) -> dict[str, Value]:
    """Convert the metadata of a row to the column types; missing values become `None`.

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
        elif value is not None and column_type({type_, type(value).__name__}) != type_:
            raise UserError(f'{where}: column "{name}" has {value!r}, expected {TYPE_WORDS[type_]}')
        values[name] = float(value) if type_ == "float" and value is not None else value
    return values
