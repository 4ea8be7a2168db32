"""Files into an index, which is made or gone on with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import tyro

from isospace.errors import UserError
from isospace.search.about import ABOUT, About, Approximate
from isospace.search.columns import Guess, Kind, fit
from isospace.search.index import SLICE, SearchIndex
from isospace.search.results import Changes
from isospace.system.progress import Logged, Progress
from isospace.vectors.records import Part, Records, Row, open_records

DEFAULT_FOLDER = Path("index")


@dataclass(frozen=True)
class IndexConfig:
    """What to index, by which model, into what."""

    inputs: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Files (txt, jsonl, csv, tsv, parquet; .gz or .zst), folders, - for standard input, or
    docstrings. A row without an id is FILE:ROW; its file, indexed again, replaces it."""
    to: Path = DEFAULT_FOLDER
    """The folder of the index; made if it is not there, else added to."""
    model: str | None = None
    """minilm, a model folder, a run's folder, or a Hub name; default: the model of the index, and
    minilm for a new one."""
    column: str = "text"
    """Which column of jsonl, csv, tsv and parquet files holds the texts."""
    id_column: str | None = None
    """Which column holds ids; a row replaces the one that has its id."""
    keep: tuple[str, ...] = ()
    """Other columns to keep, to filter by and to show; default: those of the index."""
    encoding: str = "utf-8"
    """Encoding of the text files."""


@dataclass(frozen=True)
class Outcome:
    """What indexing did.

    Attributes:
        changes: by the rows of the files.
        rows: in the index now.
        approximate: how well its approximate index finds them, `None` while it needs none.
    """

    changes: Changes
    rows: int
    approximate: Approximate | None


def index_files(config: IndexConfig, progress: Progress | None = None) -> Outcome:
    """Add the rows of files to an index, or make one of them.

    The files are read twice: once to find what is wrong with them (and what columns hold) before
    any work, once to index. Memory holds the model and `SLICE` rows. After a kill the same call
    goes on: rows that are there already, with the same text, are not encoded again.

    Args:
        config: what and where.
        progress: where it is shown; default: the log.

    Raises:
        UserError: input, model or index is not what is expected.
    """
    if not config.inputs:
        raise UserError("give one or more files to index, - for standard input, or `delete` FILTER")
    about = About.read(config.to) if (config.to / ABOUT).exists() else None
    keep = tuple(dict.fromkeys(config.keep)) or tuple(about.columns if about else ())
    if about is not None and set(keep) != set(about.columns):
        raise UserError(
            f"`keep` {' '.join(keep)}: {config.to} has the columns "
            f"{', '.join(about.columns) or 'id and text only'}. Other columns need another `to`"
        )
    with open_records(
        config.inputs, config.column, config.id_column, config.encoding, keep
    ) as records:
        rows, columns = _look(records, dict(about.columns) if about else None)
        if about is None:
            index = SearchIndex.create(config.to, config.model or "minilm", columns)
        else:
            index = SearchIndex.open(config.to, config.model)
        changes = Changes()
        with (progress or Logged()).bar("index", rows) as advance:
            for part in records.parts():
                changes += _add(index, records, part, advance)
    index.refresh()
    rows = len(index)
    return Outcome(changes, rows, index.approximate(rows))


def _look(records: Records, columns: dict[str, Kind] | None) -> tuple[int, dict[str, Kind]]:
    """How many rows there are, and what their columns hold; refuses what cannot be indexed."""
    rows, texts, guess = 0, 0, Guess(records.keep)
    for part in records.parts():
        for number, row in enumerate(part.rows, 1):
            rows += 1
            texts += bool(row.text.strip())
            given = _given(records, part, number, row)
            if columns is None:
                guess.see(*given)
            else:
                fit(columns, *given)
    if not texts:
        names = [*(source.name for source in records.sources), *["docstrings"] * records.docstrings]
        raise UserError(f"{', '.join(names)}: no text to index")
    return rows, guess.columns if columns is None else columns


def _add(
    index: SearchIndex, records: Records, part: Part, advance: Callable[[int], None]
) -> Changes:
    """Add the rows of a source, and delete what it had before and has no more."""
    changes, begin, numbered = Changes(), f"{part.name}:", enumerate(part.rows, 1)
    without = bytearray()  # of each row, whether it has no id: a byte, for files of any size
    alike: set[str] = set()  # ids that the file gives and that look like those of such rows

    def has(key: str) -> bool:
        number = int(key.removeprefix(begin))
        return key in alike or any(without[number - 1 : number])

    while rows := list(islice(numbered, SLICE)):
        changes += index.add(
            [row.text for _, row in rows],
            [row.key or f"{begin}{number}" for number, row in rows],
            [fit(index.columns, *_given(records, part, number, row)) for number, row in rows],
            advance,
        )
        without += bytes(not row.key for _, row in rows)
        alike.update(row.key for _, row in rows if row.key.startswith(begin))
    return changes + Changes(deleted=index.delete_numbered(part.name, has))


def _given(records: Records, part: Part, number: int, row: Row) -> tuple[dict[str, Any], str, bool]:
    """Metadata of a row, what messages call the row, and whether it is of cells of text."""
    values = dict(zip(records.keep, row.values, strict=True))
    return values, f"{part.name}, row {number}", part.format in ("csv", "tsv")
