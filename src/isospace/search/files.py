"""Indexing of files into a new or an existing index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from isospace.config import IndexConfig
from isospace.corpus.docstrings import DOCSTRINGS
from isospace.corpus.passages import coverage
from isospace.corpus.sources import STANDARD_INPUT, Source
from isospace.encoders.places import resolve
from isospace.errors import UserError, number_of
from isospace.operators.forms import FULL
from isospace.search.about import ABOUT, About, ApproximateIndex
from isospace.search.columns import ColumnType, check_names, column_type, fit, plain
from isospace.search.database import FILE, ROW, Changes, Row
from isospace.search.index import SearchIndex
from isospace.system.cluster import connected
from isospace.system.files import expanded, require_new
from isospace.system.progress import Logged, Progress
from isospace.vectors.texts import TextRow, Texts, open_texts

_SAMPLE = 3_000
"""Number of first texts that show how well the model's tokenizer suits them."""


@dataclass(frozen=True)
class IndexedFiles:
    """The result of indexing files; `gone` has missing files -> number of their rows left."""

    changes: Changes
    rows: int
    approximate: ApproximateIndex | None
    gone: dict[str, int]


def index_files(
    config: IndexConfig, progress: Progress | None = None, bm25_weight: float | None = None
) -> IndexedFiles:
    """Add the rows of files to an index; create the index if it does not exist.

    The files are read twice. The first reading checks them and infers the column types; the second
    one indexes. After a kill, the same call resumes: unchanged rows are not encoded again.

    A document, or a row with a long text, becomes one row per passage. A file below `About.root` is
    stored with its relative path, any other file with its absolute path.

    `bm25_weight` is the default weight of a new index.

    Raises:
        UserError: an input, a prompt, the model or the index is invalid.
    """
    progress, to = progress or Logged(), config.to
    about = _require_fitting(config)
    if not config.inputs:
        return _finish(SearchIndex.open(to, config.model), Changes(), config.sync, progress)
    keep = tuple(about.columns if about else dict.fromkeys(config.keep))
    root = (to / about.root if about else Path.cwd()).resolve()
    with (
        connected(config.engine),
        open_texts(config.inputs, config.reading, keep, cut_rows=True) as records,
    ):
        progress.line("reading", ", ".join(config.inputs))
        rows_seen, columns, some = _survey(records, about.columns if about else None)
        if about is None:
            model, compress = config.model or "minilm", config.compress or FULL
            index = SearchIndex.create(to, model, columns, config, bm25_weight, compress)
            # The tokens of a frozen encoder are not known.
            if not index.encoder.is_frozen and (found := coverage(index.encoder, some)).warning:
                progress.line("warning", found.warning)
        else:
            index = SearchIndex.open(to, config.model)
        if summary := index.about.prompts.summary:
            progress.line("prompts", summary)
        index.encoder.expect([("document", (row.text for row in records))], progress)
        read = _Read(index, records, root)
        on_cluster = config.workers if config.engine == "ray" else 0
        with progress.bar("index", rows_seen) as advance:
            changes = index.add_rows(read.rows(), advance, on_cluster)
        changes += Changes(deleted=index.database.remove(ROW, read.stale()))
    return _finish(index, changes, config.sync, progress)


def _require_fitting(config: IndexConfig) -> About | None:
    """Return the settings of the index, if it exists; refuse settings that do not fit it."""
    to = config.to
    if not config.inputs and not config.sync:
        raise UserError("nothing to index. Give files, - for standard input, `sync` or `delete`")
    check_names(config.keep)
    if config.model is not None:
        resolve(config.model)  # before the files are read
    if config.inputs and not (to / ABOUT).exists():
        require_new(to, "to")
        return None
    about = About.read(to)
    if config.keep and set(config.keep) != set(about.columns):
        columns = ", ".join(about.columns) or "id and text only"
        raise UserError(
            f"`keep` {' '.join(config.keep)}: {to} has the columns {columns}. Give another `to`"
        )
    of_new = ("query_prompt", "document_prompt", "pooling", "compress")
    if given := [f"`{name}`" for name in of_new if getattr(config, name) is not None]:
        raise UserError(f"{', '.join(given)}: only for a new index. Give another `to`, or none")
    return about


def _finish(index: SearchIndex, changes: Changes, sync: bool, progress: Progress) -> IndexedFiles:
    """Delete the rows of deleted files, or report them; then refresh the index."""
    root = index.folder / index.about.root
    files = Counter(file for file in index.database.values(FILE) if file is not None)
    gone = {file: rows for file, rows in sorted(files.items()) if not (root / file).exists()}
    rows = sum(gone.values())
    if sync:
        index.database.remove(FILE, gone)
        changes, gone = changes + Changes(deleted=rows), {}
    elif gone:
        names = ", ".join(islice(gone, 3)) + (", ..." if len(gone) > 3 else "")
        missing = f"{number_of(len(gone), 'files')} missing ({names})"
        rows_left = f"with {number_of(rows, 'rows')} in the index"
        progress.line("gone", f"{missing}, {rows_left}; `sync` deletes such rows")
    index.refresh()
    return IndexedFiles(changes, len(index), index.approximate(len(index)), gone)


def _name(source: Source, root: Path) -> tuple[str, str | None]:
    """Return a source's name for ids, and its name as a file; a path's spelling does not matter.

    Docstrings and standard input are no files.
    """
    if source.name in (DOCSTRINGS, STANDARD_INPUT):
        return source.name, None
    path = expanded(source.path).resolve()
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return (f"{DOCSTRINGS}:{name}", None) if source.format == DOCSTRINGS else (name, name)


def _survey(
    records: Texts, columns: Mapping[str, ColumnType] | None
) -> tuple[int, Mapping[str, ColumnType], list[str]]:
    """Read all files once, and refuse invalid rows.

    Returns:
        The number of rows; the columns, guessed if none are given; and the first texts.
    """
    rows, some = 0, list[str]()
    types: dict[str, set[str]] = {name: set() for name in records.keep}
    for source, text_rows in records.files():
        for row in text_rows:
            rows += 1
            if len(some) < _SAMPLE and row.text.strip():
                some.append(row.text)
            values, where, cell = _metadata(records, source, row)
            if columns is None:
                for name, raw in values.items():
                    if (value := plain(raw, cell)) is not None:
                        types[name].add(type(value).__name__)
            else:
                fit(columns, values, where, cell)
    if not some:
        names = ", ".join(source.name for source in records.sources)
        raise UserError(f"{names}: no text to index")
    if columns is not None:
        return rows, columns, some
    if empty := [name for name, seen in types.items() if not seen]:
        raise UserError(f'`keep` {empty[0]}: no row has a value in column "{empty[0]}"')
    return rows, {name: column_type(seen) for name, seen in types.items()}, some


class _Read:
    """The rows of files for an index, and the rows that the files no longer have."""

    def __init__(self, index: SearchIndex, records: Texts, root: Path) -> None:
        self._index, self._records, self._root = index, records, root
        self._last: dict[str, int] = {}  # file -> number of its last row
        self._have_ids = records.reading.id_column is not None
        self._numbered: set[str] = set()  # if rows have ids: those that look like FILE:ROW

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all files."""
        for source, rows in self._records.files():
            (name, file), number = _name(source, self._root), 0
            for row in rows:
                number = row.number
                key = row.key or f"{name}:{number}"
                if self._have_ids and key.rpartition(":")[2].isdecimal():
                    self._numbered.add(key)
                metadata = fit(self._index.columns, *_metadata(self._records, source, row))
                yield Row(row.text, key, metadata, file, row.passage, row.passages)
            if source.name not in self._records.unread:  # its rows stay
                self._last[name] = number

    def stale(self) -> set[str]:
        """Return the ids FILE:ROW in the index that no file has any more.

        Call it after all `rows` were read.
        """
        stale = set()
        for row in self._index.database.values(ROW):
            name, _, number = row.rpartition(":")
            if name not in self._last or not number.isdecimal():
                continue
            if row not in self._numbered if self._have_ids else int(number) > self._last[name]:
                stale.add(row)
        return stale


def _metadata(records: Texts, source: Source, row: TextRow) -> tuple[dict[str, Any], str, bool]:
    """Return the metadata of a row, its name for messages, and true if it is from CSV or TSV."""
    values = dict(zip(records.keep, row.values, strict=True))
    return values, f"{source.name}, row {row.number}", source.format in ("csv", "tsv")
