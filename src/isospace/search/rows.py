"""Rows of an index: the choice of rows to write, and counts of changes."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

from isospace.corpus.characters import normalise
from isospace.errors import UserError
from isospace.search.columns import ColumnType, fit
from isospace.search.database import Database
from isospace.system.unicode import without_surrogates

_FILE = -2
"""Index of the file among the values of a row."""


class Row(NamedTuple):
    """A text, its id, and metadata by column.

    Attributes:
        file: name of the row's file; `None` if the row was not read from a file.
        passage_of: id of the long row that the text is a passage of; `None` if the row is whole.
    """

    text: str
    id: str
    metadata: Mapping[str, Any]
    file: str | None = None
    passage_of: str | None = None


@dataclass(frozen=True)
class Changes:
    """Counts of rows: each is added, replaced, unchanged, empty or repeated.

    Each passage of a long row counts as a row.

    Attributes:
        added: rows with new ids.
        replaced: rows whose text or metadata changed.
        unchanged: rows with the same text and metadata, which are not encoded again.
        empty: rows without text, which are left out.
        deleted: rows deleted because their text is empty now, their file no longer has them, or
            their long row is split differently.
        repeated: rows left out because a later row has the same id.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    empty: int = 0
    deleted: int = 0
    repeated: int = 0

    def __add__(self, other: Changes) -> Changes:
        return Changes(*map(operator.add, astuple(self), astuple(other)))


def put_unencoded(
    database: Database, columns: Mapping[str, ColumnType], rows: Sequence[Row]
) -> tuple[dict[str, tuple[Any, ...]], Changes]:
    """Write the changes that need no vector, and return the rows to encode.

    Rows without text are deleted. Rows that only moved to another file get the new file name.

    Returns:
        id -> text, metadata, file and long row, of the rows to encode and write; and the counts of
        all changes.
    """
    wanted: dict[str, tuple[Any, ...]] = {}
    for text, key, metadata, file, passage_of in rows:
        values = fit(columns, metadata, f"row {key}").values()
        row = without_surrogates(normalise(text)), *values, file, passage_of
        _require_same_row(key, row, wanted)
        wanted[key] = row
    known = database.known(list(wanted))
    for key, row in wanted.items():
        _require_same_row(key, row, known)
    empty = {key for key, (text, *_) in wanted.items() if not text.strip()}
    others = {key: row for key, row in wanted.items() if known.get(key) != row}
    moved = {
        key: row[_FILE]
        for key, row in others.items()
        if key in known and _without_file(row) == _without_file(known[key])
    }
    changed = {key: row for key, row in others.items() if key not in empty and key not in moved}
    for file in set(moved.values()):
        database.move([key for key, now in moved.items() if now == file], file)
    if gone := sorted(empty & set(known)):
        database.remove(gone)
    replaced = len(set(changed) & set(known))
    unchanged = len(wanted) - len(empty) - len(changed)
    changes = Changes(len(changed) - replaced, replaced, unchanged, len(empty), len(gone))
    return changed, changes


def passage_id(row: str, passage: int, passages: int) -> str:
    """Return the id of a passage, counted from 1; a row with one passage keeps its id.

    >>> passage_id("posts.csv:7", 1, 1), passage_id("posts.csv:7", 2, 3)
    ('posts.csv:7', 'posts.csv:7#2')
    """
    return f"{row}#{passage}" if passages > 1 else row


def _without_file(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[:_FILE] + row[_FILE + 1 :]


def _require_same_row(
    key: str, row: tuple[Any, ...], others: Mapping[str, tuple[Any, ...]]
) -> None:
    """Refuse an id that belongs both to a row and to a passage of another row.

    The last value of a row is the id of its long row, or `None`.
    """
    if key not in others or others[key][-1] == row[-1]:
        return
    long = row[-1] or others[key][-1]
    raise UserError(
        f"id {key}: belongs to a row, and to a passage of the long row {long}. Give the row "
        "another id, `delete` one of the two, or index rows whole (`passage_words` None)"
    )
