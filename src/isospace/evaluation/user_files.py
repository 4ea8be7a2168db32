"""A user's file of texts: which kind of data its columns are, and its rows with their lines.

Columns are known by their names where a header, objects or parquet give some; else by their number
and by what is in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from isospace.errors import UserError
from isospace.evaluation.rows import Row, read_rows

Kind = Literal["pairs", "triples", "scored", "labelled"]

_FIRST = {
    "a", "anchor", "first", "premise", "query", "question", "sentence1", "source", "summary",
    "text1", "title",
}  # fmt: skip
_SECOND = {
    "answer", "b", "body", "description", "document", "hypothesis", "positive", "second",
    "sentence2", "text2",
}  # fmt: skip

COLUMNS: dict[Kind, dict[str, set[str]]] = {
    "triples": {
        "anchor": _FIRST,
        "positive": _SECOND,
        "negative": {"hard_negative", "neg", "negative"},
    },
    "scored": {
        "sentence1": _FIRST,
        "sentence2": _SECOND,
        "score": {"gold", "label", "rating", "relatedness_score", "score", "similarity"},
    },
    "labelled": {
        "text": _FIRST | {"text", "sentence", "content", "review"},
        "label": {"category", "class", "intent", "label", "topic"},
    },
    "pairs": {"query": _FIRST, "document": _SECOND},
}
"""Kind -> its columns -> the names that such a column goes by. Of several kinds that fit the names
of a file the first here is meant."""

_LABEL_WORDS = 3  # what has more is not taken for a label unless the user says so


@dataclass(frozen=True)
class UserFile:
    """The rows of a file.

    Attributes:
        path: of the file.
        kind: of the data.
        columns: the names of the columns that were read, in the order of `COLUMNS[kind]`; empty
            where the file gives none.
        rows: line number (of parquet: row number) and cells of each row, as `columns`.
    """

    path: Path
    kind: Kind
    columns: tuple[str, ...]
    rows: list[tuple[int, list[Any]]]


def read_user_file(path: Path, kind: Kind | None = None) -> UserFile:
    """Read a file of pairs, triples, scored pairs or labelled sentences.

    Args:
        path: a csv, tsv, txt, jsonl or parquet file; text in UTF-8.
        kind: what the rows are; by default what names and values of the columns say.

    Raises:
        UserError: naming file and line, for a file that cannot be read, a wrong number of columns,
            fewer than two rows, or columns that could be of two kinds.
    """
    rows = read_rows(path, _is_header)
    named = ((line, tuple(row)) for line, row in rows if isinstance(row, dict))
    line, names = next(named, (1, ()))
    if len(rows) < 2:
        raise UserError(f"{path}: expected at least two rows, found {len(rows)}")
    kind = kind or _recognise(path, names, [_values(row) for _, row in rows])
    columns = _choose(f"{path}:{line}", kind, names)
    cells = [(line, _cells(path, line, row, kind, columns)) for line, row in rows]
    return UserFile(path, kind, columns, cells)


def text_cell(path: Path, line: int, cell: Any) -> str:
    """A text with its white space folded.

    Raises:
        UserError: naming file, line and value.
    """
    if not isinstance(cell, str) or not cell.strip():
        raise UserError(f"{path}:{line}: expected a text, found {cell!r}")
    return " ".join(cell.split())


def parse_score(path: Path, line: int, cell: Any) -> float:
    """A gold score as a finite number.

    Raises:
        UserError: naming file, line and value.
    """
    score = _number(cell)
    if score is None:
        raise UserError(f"{path}:{line}: the score {cell!r} is no number; expected one like 3.8")
    return score


def _is_header(cells: Sequence[str]) -> bool:
    return not any(_number(cell) is not None for cell in cells) and any(
        _match(kind, cells) for kind in COLUMNS
    )


def _recognise(path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Kind:
    """The kind that the columns' names say, else their number and the last one's values."""
    for kind in COLUMNS:
        if _match(kind, names):
            return kind
    width, last = len(rows[0]), [row[-1] if row else None for row in rows]
    numeric = 2 * sum(_number(value) is not None for value in last) > len(last)
    if width == 3:
        return "scored" if numeric else "triples"
    if width != 2:
        found = f" ({', '.join(names)})" if names else ""
        raise UserError(
            f"{path}: {width} columns{found}; expected {_kinds_in_words()}, in this order or under "
            "these names"
        )
    distinct = len({str(value) for value in last})
    if 2 * distinct > len(last) and not numeric:
        return "pairs"
    if numeric or all(len(str(value).split()) <= _LABEL_WORDS for value in last):
        return "labelled"
    raise UserError(
        f"{path}: the second column has {distinct} values in {len(last)} rows: labels, or texts "
        "that belong to several others? Say which: --kind labelled, or --kind pairs"
    )


def _kinds_in_words() -> str:
    return ", or ".join(f"{kind} ({', '.join(columns)})" for kind, columns in COLUMNS.items())


def _match(kind: Kind, names: Sequence[str]) -> tuple[str, ...] | None:
    """The names of the kind's columns, in its order, or None where one is missing."""
    found: list[str] = []
    for known in COLUMNS[kind].values():
        free = (name for name in names if name not in found and name.strip().lower() in known)
        name = next(free, None)
        if name is None:
            return None
        found.append(name)
    return tuple(found)


def _choose(where: str, kind: Kind, names: tuple[str, ...]) -> tuple[str, ...]:
    """Which of the named columns to read; none where the file has no names."""
    if not names:
        return ()
    if kind == "pairs":
        wider: tuple[Kind, ...] = ("triples", "scored")
        for more in wider:
            if _match(more, names):  # pairs of texts that do not all belong together
                raise UserError(
                    f"{where}: the columns {', '.join(names)} say {more}; expected pairs of texts "
                    "that belong together, in two columns"
                )
    columns = _match(kind, names)
    if columns is None and len(names) == len(COLUMNS[kind]):
        columns = names
    if columns is None:
        raise UserError(
            f"{where}: {len(names)} columns ({', '.join(names)}); expected "
            f"{len(COLUMNS[kind])} ({', '.join(COLUMNS[kind])})"
        )
    return columns


def _cells(path: Path, line: int, row: Row, kind: Kind, columns: Sequence[str]) -> list[Any]:
    if isinstance(row, dict):
        missing = [name for name in columns if name not in row]
        if missing:
            expected = ", ".join(columns)
            raise UserError(f"{path}:{line}: no field {missing[0]!r}; expected {expected}")
        return [row[name] for name in columns]
    if len(row) != len(COLUMNS[kind]):
        raise UserError(
            f"{path}:{line}: {len(row)} columns; expected {len(COLUMNS[kind])} "
            f"({', '.join(COLUMNS[kind])})"
        )
    return row


def _values(row: Row) -> list[Any]:
    return list(row.values()) if isinstance(row, dict) else row


def _number(cell: Any) -> float | None:
    """A cell as a finite number, or None where it is none."""
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return None
    return None if isinstance(cell, bool) or not math.isfinite(number) else number
