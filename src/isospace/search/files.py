"""Indexing of files, into a new index or an old one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from isospace.corpus.overview import SAMPLE, coverage
from isospace.corpus.sources import DOCSTRINGS
from isospace.encoders.encoder import Encoder
from isospace.encoders.pooling import PoolingName
from isospace.encoders.prompts import Prompts
from isospace.errors import UserError
from isospace.evaluation.compression import FITTED_ON
from isospace.operators.forms import FULL, FormName
from isospace.search.about import ABOUT, About, ApproximateIndex, require_room
from isospace.search.columns import ColumnType, TypeGuess, fit
from isospace.search.index import SearchIndex
from isospace.search.rows import SLICE, Changes, Row, passage_id
from isospace.statistics.counts import number_of
from isospace.system.cluster import Engine, connected
from isospace.system.files import expanded, require_writable
from isospace.system.progress import Logged, Progress
from isospace.vectors.encode_config import AS_IT_LOOKS, Reading
from isospace.vectors.texts import RowsSeen, TextFile, TextRow, Texts, open_texts

_ID_BYTES = 16  # of the hash of an id: so many that no two ids are to be expected to share one


@dataclass(frozen=True)
class IndexedFiles:
    """The result of indexing files.

    Attributes:
        changes: to the rows of the index.
        rows: how many are in the index now.
        approximate: as in `About`.
        gone: files that are not there any more -> how many rows of each are left in the index.
    """

    changes: Changes
    rows: int
    approximate: ApproximateIndex | None
    gone: dict[str, int]


def index_files(
    inputs: str | Sequence[str],
    to: Path | str,
    model: str | None = None,
    column: str = "text",
    id_column: str | None = None,
    keep: Sequence[str] = (),
    encoding: str = "utf-8",
    progress: Progress | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    bm25_weight: float | None = None,
    engine: Engine = "local",
    workers: int = 1,
    reading: Reading = AS_IT_LOOKS,
    sync: bool = False,
    pooling: PoolingName | None = None,
    compress: FormName | None = None,
) -> IndexedFiles:
    """Add the rows of files to an index, or make one of them.

    A document is a row for each passage, and so is a row whose text is longer than one.

    The files are read twice: once to find what is wrong with them (and what columns hold, and which
    ids repeat) before any work, once to index. Memory holds the model, `SLICE` rows and, with an
    `id_column`, 61 bytes a row and the ids FILE:ROW of rows without one. After a kill the same call
    goes on: rows that are there already, with the same text, are not encoded again.

    A file is known by its path below `About.root`, however it is spelled here; one that is not
    below that folder, by its absolute path.

    Args:
        inputs: one or more of files, folders, - for standard input, docstrings; with `sync` none
            is needed.
        to: the folder of the index; made if it is not there.
        model: as `load_encoder` takes it; default: that of the index, and minilm for a new one.
        column: holds the texts, where a file has columns.
        id_column: holds ids; of rows with one id the last counts. A row without is FILE:ROW. The
            passages of a row are ID#1, ID#2 and on.
        keep: other columns to keep; default: those of the index.
        encoding: of text files.
        progress: where it is shown; default: the log.
        query_prompt: of a new index, as for `SearchIndex.create`; an index keeps its prompts.
        document_prompt: of a new index.
        bm25_weight: of a new index, as for `SearchIndex.create`.
        engine: where texts are encoded: here, or on the machines of a Ray cluster.
        workers: how many encode there.
        reading: how the files are read and cut.
        sync: delete the rows of files that are not there any more.
        pooling: of a new index, as for `SearchIndex.create`.
        compress: of a new index, the form of its vectors; default: float32.

    Raises:
        UserError: input, prompts, model or index is not what is expected.
    """
    progress = progress or Logged()
    inputs, to = [inputs] if isinstance(inputs, str) else list(inputs), expanded(to)
    if not inputs and not sync:
        raise UserError(
            "nothing to index. Give one or more files, or - for standard input, or `sync`, or "
            "`delete` FILTER"
        )
    on_cluster = _on_cluster(engine, workers)
    about = About.read(to) if (to / ABOUT).exists() or not inputs else None
    keep = tuple(dict.fromkeys(keep)) or tuple(about.columns if about else ())
    if about is not None and set(keep) != set(about.columns):
        raise UserError(
            f"`keep` {' '.join(keep)}: {to} has the columns "
            f"{', '.join(about.columns) or 'id and text only'}. For other columns make a new "
            "index with another `to`"
        )
    if about is None:
        require_room(to)
        require_writable(to, inside=True, setting="to")
    elif (query_prompt, document_prompt, pooling, compress) != (None, None, None, None):
        raise UserError(
            f"`query_prompt`, `document_prompt`, `pooling`, `compress`: {to} keeps the values it "
            "was made with. Leave these settings out, or make a new index in another folder (`to`)"
        )
    if not inputs:
        return _finish(SearchIndex.open(to, model), Changes(), sync, progress)
    root = (to / about.root if about else Path.cwd()).resolve()
    columns_read = column, id_column, encoding, keep
    with (
        connected(engine),
        open_texts(inputs, *columns_read, reading, cut_rows=True) as records,
    ):
        progress.line("reading", ", ".join(inputs))
        known = about.columns if about else None
        seen, columns, superseded, first, spread = _survey(records, root, known)
        if about is None:
            model = model or "minilm"
            prompts = query_prompt, document_prompt
            index = SearchIndex.create(
                to,
                model,
                columns,
                *prompts,
                bm25_weight,
                pooling,
                compress or FULL,
                spread,
                progress,
            )
            _say_coverage(index.encoder, first, progress)
        else:
            index = SearchIndex.open(to, model)
        if summary := index.about.prompts(Prompts()).summary:
            progress.line("prompts", summary)
        rows = (row.text for part in records.files() for row in part.rows)
        index.encoder.expect([("document", rows)], progress)
        changes = Changes(repeated=len(superseded))
        places, again = count(), RowsSeen()
        with progress.bar("index", seen.rows - changes.repeated) as advance:
            for part in records.files():
                part = part._replace(rows=again.noting(part.rows))
                name = _name(part, root)
                changes += _add(index, records, part, name, places, superseded, advance, on_cluster)
    indexed = _finish(index, changes, sync, progress)
    if again.digest != seen.digest:
        raise UserError(
            f"{', '.join(inputs)}: the text changed while it was indexed. Run the same command "
            "again"
        )
    return indexed


def _finish(index: SearchIndex, changes: Changes, sync: bool, progress: Progress) -> IndexedFiles:
    """Delete the rows of files that are gone, or tell of them; bring the index up to date."""
    gone = index.gone()
    rows = sum(gone.values())
    if sync:
        index.delete_files(list(gone))
        changes, gone = changes + Changes(deleted=rows), {}
    elif gone:
        names = ", ".join(islice(gone, 3)) + (", ..." if len(gone) > 3 else "")
        progress.line(
            "gone",
            f"{number_of(len(gone), 'files')} missing ({names}), with {number_of(rows, 'rows')} in "
            "the index; `sync` deletes such rows",
        )
    index.refresh()
    return IndexedFiles(changes, len(index), index.approximate(len(index)), gone)


def _name(part: TextFile, root: Path) -> str:
    """Name a source for ids: a file by one path, however the user spells it."""
    prefix, path = "", part.path
    if part.format == DOCSTRINGS and part.name != DOCSTRINGS:
        folder = part.name.removeprefix(prefix := f"{DOCSTRINGS}:")
        path = Path(folder).expanduser()
    if path is None:
        return part.name
    path = path.resolve()
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return f"{prefix}{name}"


def _say_coverage(encoder: Encoder, first: list[str], progress: Progress) -> None:
    """Warn of texts that the encoder does not know or does not read to their end."""
    if encoder.is_frozen:  # whose tokens are not known
        return
    found = coverage(encoder, first)
    if found.warning:
        progress.line("warning", found.warning)
    limit = encoder.max_length
    if limit is not None and found.lengths[0.95] > limit:
        progress.line(
            "length",
            f"one row in twenty or more has over {limit} tokens: what is behind them is not read, "
            "so not found",
        )


def _on_cluster(engine: Engine, workers: int) -> int:
    """Return the number of workers on a cluster; 0: this process encodes."""
    if workers < 1:
        raise UserError(f"`workers` {workers}: expected 1 or more")
    if engine == "local" and workers > 1:
        raise UserError(
            f"`workers` {workers}: only `engine` ray uses workers. Set `engine` ray, or leave "
            "`workers` out"
        )
    return workers if engine == "ray" else 0


def _survey(
    records: Texts, root: Path, columns: Mapping[str, ColumnType] | None
) -> tuple[RowsSeen, Mapping[str, ColumnType], frozenset[int], list[str], list[str]]:
    """Read everything once; refuses what cannot be indexed.

    Returns:
        Which rows there are; the columns, guessed where none are given; the places among all
        rows, from 0, of those whose id a later row has; the first texts; and texts drawn from all,
        on which a compression can be fitted.
    """
    seen, guess = RowsSeen(), TypeGuess(records.keep)
    first: list[str] = []
    spread: list[str] = []
    draw, texts = Random(0), 0
    ids, begins = bytearray(), bytearray()
    for part in records.files():
        name = _name(part, root)
        for row in seen.noting(part.rows):
            if row.text.strip():
                if len(first) < SAMPLE:
                    first.append(row.text)
                texts += 1  # each text so far is among those drawn with the same chance
                if len(spread) < FITTED_ON:
                    spread.append(row.text)
                elif (place := draw.randrange(texts)) < FITTED_ON:
                    spread[place] = row.text
            metadata = _metadata(records, part, row)
            if columns is None:
                guess.see(*metadata)
            else:
                fit(columns, *metadata)
            if records.id_column is not None:
                ids += blake2b(_row_id(name, row).encode(), digest_size=_ID_BYTES).digest()
                begins.append(row.passage == 1)
    if not first:
        names = ", ".join(source.name for source in records.sources)
        raise UserError(f"{names}: no text to index")
    columns = guess.columns if columns is None else columns
    return seen, columns, _superseded(ids, begins), first, spread


def _superseded(ids: bytearray, begins: bytearray) -> frozenset[int]:
    """Find the rows whose id a later row has.

    Args:
        ids: hashes of the rows' ids, one after the other; a row that is cut has several in a row.
        begins: of each 1 where its row begins, else 0.
    """
    if not begins:
        return frozenset()
    halves = np.frombuffer(ids, np.uint64).reshape(-1, 2)
    order = np.lexsort((halves[:, 0], halves[:, 1]))  # stable: equal ids stay in their order
    other = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
    group = np.concatenate([[0], np.cumsum(other)])
    last = np.zeros(group[-1] + 1, np.int64)  # where the last row of each id begins
    began = np.frombuffer(begins, np.bool_)[order]
    np.maximum.at(last, group[began], order[began])
    return frozenset(order[order < last[group]].tolist())


def _add(
    index: SearchIndex,
    records: Texts,
    part: TextFile,
    name: str,
    places: Iterator[int],
    superseded: frozenset[int],
    advance: Callable[[int], None],
    on_cluster: int,
) -> Changes:
    """Add the rows of a source, and delete what it had before and has no more."""
    begin = f"{name}:"
    placed = zip(part.rows, places, strict=False)  # places never end
    last_number = deleted = 0
    numbered_ids: set[str] = set()  # among the ids of a column: those of rows that have none

    def has(key: str) -> bool:
        if records.id_column is None:
            return int(key.removeprefix(begin)) <= last_number
        return key in numbered_ids

    def slices() -> Iterator[Sequence[Row]]:
        nonlocal last_number, deleted
        while batch := list(islice(placed, SLICE)):
            last_number = batch[-1][0].number
            kept = [row for row, place in batch if place not in superseded]
            rows = [_indexed(index, records, part, name, row) for row in kept]
            # Before they are written: what a kill leaves undone the next command then does.
            cut = {_row_id(name, row): row.passages for row in kept}
            deleted += index.delete_other_passages(cut)
            if rows:
                yield rows
            if records.id_column is not None:
                ids = (_row_id(name, row) for row, _ in batch)
                numbered_ids.update(key for key in ids if key.startswith(begin))

    changes = index.add_slices(slices(), advance, on_cluster)
    if not part.unread:  # else what it had before stays
        deleted += index.delete_numbered(name, has)
    return changes + Changes(deleted=deleted)


def _indexed(index: SearchIndex, records: Texts, part: TextFile, name: str, row: TextRow) -> Row:
    """Convert a row of a file to a row of the index."""
    whole = _row_id(name, row)
    key = passage_id(whole, row.passage, row.passages)
    metadata = fit(index.columns, *_metadata(records, part, row))
    file = None if part.path is None else name
    return Row(row.text, key, metadata, file, None if row.passages == 1 else whole)


def _row_id(name: str, row: TextRow) -> str:
    return row.key or f"{name}:{row.number}"


def _metadata(records: Texts, part: TextFile, row: TextRow) -> tuple[dict[str, Any], str, bool]:
    """Return the metadata of a row, its name for messages, and whether it is of cells."""
    values = dict(zip(records.keep, row.values, strict=True))
    return values, f"{part.name}, row {row.number}", part.format in ("csv", "tsv")
