"""A user's own data: files of pairs or scored pairs; folders are read by `judged`.

A header, jsonl objects or parquet give the columns of a file names, and the names tell its kind.
Without names two columns are pairs and three are scored pairs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from isospace.config import DataKind, EvaluateConfig
from isospace.corpus.groups import group_key, unit_of
from isospace.corpus.records import GENERATED_BY, Cells, finite_number, read_rows
from isospace.corpus.sources import file_source
from isospace.errors import UserError, number_of
from isospace.evaluation.judged import JudgedQueries, load_judged
from isospace.evaluation.pairs import ScoredPairs, TextPairs
from isospace.system.files import expanded
from isospace.system.progress import warn_once
from isospace.system.unicode import normalise

logger = logging.getLogger(__name__)

_FIRST = (
    "anchor", "query", "question", "premise", "sentence1", "text1", "first", "a", "summary",
    "title", "source",
)  # fmt: skip
_SECOND = (
    "positive", "document", "passage", "answer", "hypothesis", "sentence2", "text2", "second", "b",
    "body", "description",
)  # fmt: skip

COLUMNS: dict[DataKind, dict[str, tuple[str, ...]]] = {
    "scored": {
        "sentence1": ("sentence1", *_FIRST),
        "sentence2": ("sentence2", *_SECOND),
        "score": ("score", "gold", "label", "rating", "relatedness_score", "similarity"),
    },
    "pairs": {"query": ("query", *_FIRST), "document": ("document", *_SECOND)},
}
"""Kind -> column -> accepted names of the column. If several names or kinds fit a file, the first
is used."""

Content: TypeAlias = TextPairs | ScoredPairs | JudgedQueries


@dataclass(frozen=True)
class OwnData:
    """A user's file or folder, with a description of the columns that were read."""

    file: str
    columns: str
    content: Content

    def texts(self) -> list[str]:
        """Return the distinct texts of the file."""
        match self.content:
            case JudgedQueries(queries, documents):
                found = (*queries, *documents)
            case TextPairs(_, first, second):
                found = (*first, *second)
        return list(dict.fromkeys(found))


def load_own(path: Path | str, split: str | None = None) -> OwnData:
    """Read a user's file, or the judgements `split` of a folder."""
    if (folder := expanded(path)).is_dir():
        judged = load_judged(folder, split)
        documents = number_of(len(judged.documents), "documents")
        found = f"{len(judged):,} judged queries of {judged.file}, {documents}"
        return OwnData(folder.name, found, judged)
    file = read_user_file(path)
    columns = f"columns {', '.join(file.columns)}" if file.columns else "columns without names"
    content = _as_pairs(file) if file.kind == "pairs" else _as_scored_pairs(file)
    return OwnData(file.path.name, columns, content)


def load_own_files(config: EvaluateConfig) -> list[OwnData]:
    """Read the files and folders of `own`; several of one name are named by their paths."""
    own = [load_own(path, config.split) for path in config.own]
    names = [data.file for data in own]
    return [
        replace(data, file=path) if names.count(data.file) > 1 else data
        for path, data in zip(config.own, own, strict=True)
    ]


def load_pairs(path: Path | str, group: str | None = None) -> TextPairs:
    """Read a file of pairs: two columns of texts, and optionally a column `group`.

    Raises:
        UserError: the file cannot be read, or has no such pairs; the message names file and line.
    """
    return _as_pairs(read_user_file(path, "pairs", group))


def load_scored_pairs(path: Path | str) -> ScoredPairs:
    """Read a file of sentence1, sentence2, score; only the order of the scores counts."""
    return _as_scored_pairs(read_user_file(path, "scored"))


def _as_pairs(file: UserFile) -> TextPairs:
    first, second = file.texts(0), file.texts(1)
    if len(set(second)) < 2:
        raise UserError(f"{file.path}: all rows have the same second text, {second[0][:60]!r}")
    unit = unit_of(file.group)
    return TextPairs(file.path.name, first, second, groups=file.groups, unit=unit)


def _as_scored_pairs(file: UserFile) -> ScoredPairs:
    first, second = file.texts(0), file.texts(1)
    gold = [parse_score(file.path, line, cells[2]) for line, cells in file.rows]
    if len(set(gold)) < 2:
        raise UserError(f"{file.path}: all rows have the score {gold[0]:g}, so none is higher")
    return ScoredPairs(file.path.name, first, second, np.array(gold), "own file")


@dataclass(frozen=True)
class UserFile:
    """Rows of a file: line number (parquet: row number) and the cells of `COLUMNS[kind]`.

    `columns` are the file's own names of these; empty without names.
    """

    path: Path
    kind: DataKind
    columns: tuple[str, ...]
    rows: list[tuple[int, list[Any]]]
    group: str | None = None
    groups: tuple[str, ...] | None = None

    def texts(self, column: int) -> tuple[str, ...]:
        """Return the texts of a column."""
        return tuple(text_cell(self.path, line, cells[column]) for line, cells in self.rows)


def read_user_file(
    path: Path | str, kind: DataKind | None = None, group: str | None = None
) -> UserFile:
    """Read a file of pairs or scored pairs; the columns tell the kind if it is not given.

    Rows written by a language model (`GENERATED_BY`) are left out.
    """
    path = expanded(path)
    source = file_source(path)
    # A first row with the name `group` is a header, even if its other names are unknown.
    rows = list(read_rows(source, lambda cells: group in cells or _is_header(cells)))
    rows = _own_rows(path, rows)
    groups = None if group is None else _take_groups(path, rows, group)
    named = ((line, tuple(row)) for line, row in rows if isinstance(row, dict))
    line, names = next(named, (1, ()))
    if len(rows) < 2:
        raise UserError(f"{path}: {number_of(len(rows), 'rows')}, expected at least two")
    if not names and source.format != "jsonl":
        _require_no_header(f"{path}:{rows[0][0]}", _values(rows[0][1]))
    kind = kind or _recognise(path, names, [row for _, row in rows])
    columns = _columns_to_read(f"{path}:{line}", kind, names)
    cells = [(line, _cells(path, line, row, kind, columns)) for line, row in rows]
    return UserFile(path, kind, columns, cells, group, groups)


def _own_rows(path: Path, rows: list[tuple[int, Cells]]) -> list[tuple[int, Cells]]:
    """Return the rows that no language model wrote, without the column `GENERATED_BY`."""
    own = []
    for line, row in rows:
        if not (isinstance(row, dict) and row.pop(GENERATED_BY, None)):
            own.append((line, row))
    if not own and rows:
        raise UserError(
            f"{path}: a language model wrote all of its {number_of(len(rows), 'queries')}, so "
            "nothing is measured with them. Train on them with `queries`"
        )
    if left_out := len(rows) - len(own):
        warn_once(
            logger,
            f"{path}: {number_of(left_out, 'generated queries')} left out, as nothing is measured "
            "with them",
        )
    return own


def text_cell(path: Path, line: int, cell: Any) -> str:
    """Return a text with its characters normalised and its white space folded."""
    text = " ".join(normalise(cell).split()) if isinstance(cell, str) else ""
    if not text:
        raise UserError(f"{path}:{line}: {cell!r} is not a text. Give a string")
    return text


def parse_score(path: Path, line: int, cell: Any) -> float:
    """Parse a gold score as a finite number."""
    score = finite_number(cell)
    if score is None:
        raise UserError(f"{path}:{line}: the score {cell!r} is not a number. Give one like 3.8")
    return score


def _take_groups(path: Path, rows: list[tuple[int, Cells]], group: str) -> tuple[str, ...]:
    """Remove the column `group` from the rows, and return the group of each row."""
    groups = []
    for line, row in rows:
        if not isinstance(row, dict):
            raise UserError(
                f'{path}:{line}: no column "{group}". Name the columns in a first line, or in '
                f"jsonl by keys: query, document, {group}"
            )
        if group not in row:
            columns = ", ".join(map(str, row))
            raise UserError(f'{path}:{line}: no column "{group}". Columns: {columns}')
        # The NUL keeps a line number apart from the group names in the file.
        groups.append(group_key(row.pop(group)) or f"\0{line}")
    return tuple(groups)


def _is_header(cells: Sequence[str]) -> bool:
    return not any(finite_number(cell) is not None for cell in cells) and any(
        match_columns(kind, cells) for kind in COLUMNS
    )


def _require_no_header(where: str, first: Sequence[str]) -> None:
    """Refuse a first row of short cells, one of which is the name of a column."""
    names = {name for columns in COLUMNS.values() for known in columns.values() for name in known}
    short = all(0 < len(cell.split()) < 4 and finite_number(cell) is None for cell in first)
    if short and any(len(c.strip()) > 1 and c.strip().lower() in names for c in first):
        raise UserError(
            f"{where}: {', '.join(first)} look like column names. Rename them to "
            f"{_kinds_in_words()}; if they are a row, add a line of such names above it"
        )


def _recognise(path: Path, names: Sequence[str], rows: Sequence[Cells]) -> DataKind:
    """Return the kind of data by the columns' names, or their number."""
    pairs, scored = match_columns("pairs", names), match_columns("scored", names)
    width = len(rows[0])
    if scored and [scored[0].lower(), scored[2].lower()] == ["title", "label"]:
        raise UserError(
            f"{path}: {', '.join(scored)} may be a text with its class. Rename label to score if "
            "it says how similar two texts are, else leave it out"
        )
    if scored or (width == 3 and not pairs):
        return "scored"
    if pairs:
        return "pairs"
    if width != 2:
        given = f" ({', '.join(names)})" if names else ""
        raise UserError(
            f"{path}: {number_of(width, 'columns')}{given}; expected {_kinds_in_words()}, "
            "in this order or under these names"
        )
    for place, which in enumerate(("first", "second")):
        column = [str(_values(row)[place]) for row in rows if len(row) == 2]
        if 2 * len(set(column)) <= len(column):
            raise UserError(
                f"{path}: the {which} column has {number_of(len(set(column)), 'distinct cells')} "
                f"in {len(column):,} rows, as labels do. Name the columns query and document if "
                "they are texts to search"
            )
    return "pairs"


def _kinds_in_words() -> str:
    return ", or ".join(f"{kind} ({', '.join(columns)})" for kind, columns in COLUMNS.items())


def match_columns(kind: DataKind, names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of the kind's columns in order, or `None` if a column is missing."""
    columns: list[str] = []
    for known in COLUMNS[kind].values():
        free = {name.strip().lower(): name for name in reversed(names) if name not in columns}
        name = next((free[name] for name in known if name in free), None)
        if name is None:
            return None
        columns.append(name)
    return tuple(columns)


def _columns_to_read(where: str, kind: DataKind, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the columns to read; empty if the file has no names."""
    if kind == "pairs" and match_columns("scored", names):
        raise UserError(f"{where}: {', '.join(names)} are scored pairs, expected pairs of texts")
    if columns := match_columns(kind, names):
        return columns
    if names and len(names) != len(COLUMNS[kind]):
        given = f"{number_of(len(names), 'columns')} ({', '.join(names)})"
        raise UserError(f"{where}: {given}; {_expected(kind)}")
    return names


def _expected(kind: DataKind) -> str:
    return f"expected {len(COLUMNS[kind])} ({', '.join(COLUMNS[kind])})"


def _cells(path: Path, line: int, row: Cells, kind: DataKind, columns: Sequence[str]) -> list[Any]:
    if isinstance(row, dict) and columns:
        missing = [name for name in columns if name not in row]
        if missing:
            expected = ", ".join(columns)
            raise UserError(f"{path}:{line}: no field {missing[0]!r}; expected {expected}")
        return [row[name] for name in columns]
    if len(row) != len(COLUMNS[kind]):
        raise UserError(f"{path}:{line}: {number_of(len(row), 'columns')}; {_expected(kind)}")
    return _values(row)


def _values(row: Cells) -> list[Any]:
    return list(row.values()) if isinstance(row, dict) else row
