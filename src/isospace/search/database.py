"""The table of an index, and the types of its columns; the only module that uses LanceDB.

isospace infers the types of metadata columns itself, because pyarrow.csv and pandas lose
information. They read the code 02139 as the number 2139, and round an id of twenty digits.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from datetime import timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isospace.errors import UserError, first_line
from isospace.operators.compression import compressed, restored
from isospace.operators.forms import RESCORED, FormName, has_floats, numbers_of
from isospace.operators.fusion import fuse
from isospace.operators.nearest import highest, nearest
from isospace.system.imports import import_extra
from isospace.system.unicode import normalise, without_surrogates
from isospace.vectors.vector_files import as_lists, vector_field

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


def _condition(where: str | None) -> str | None:
    """Return a filter in parentheses, since LanceDB ignores an end that it cannot parse.

    Without them, it would read `year > 3 ADN kind = 'a'` as `year > 3`.
    """
    if where is None:
        return None
    if not where.strip():
        raise UserError("the filter is empty. Give an SQL condition, such as id = 'a'")
    return f"({without_surrogates(where)}\n)"  # on a line of its own: it may end in a comment


SLICE = 4096
"""Number of rows, of one file or many, that are written together; a kill loses at most these."""

_TABLE = "texts"
_FILE = "_file"
"""Column with the file of a row; null if the row was not read from a file."""
_ROW = "_row"
"""Column with the id of the row that a text is, or that it is a passage of."""
_BITS = "_bits"
"""Column of bits that find candidates; the numbers of `vector` then rank them."""
_ARROW = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
_GROUP = 8192
"""Approximate number of rows per group of the approximate index."""
_PROBES = 20
"""Number of groups searched; more only if too few of their rows match a filter."""
_REFINE = 2
"""The approximate index gives this factor times k candidates, re-ranked by their full vectors."""
_OLD = timedelta(minutes=1)
"""Age at which obsolete files are deleted; running searches may still need younger ones."""


_DEPTH = 100
"""Number of candidates by cosine, and of candidates by BM25, for fusion."""
SPREAD_SAMPLE = 1000
"""Number of texts from which fusion estimates the spread of a query's cosines."""

RECALL_QUERIES, RECALL_AT = 100, 10
"""Recall is measured with this number of queries, at this number of hits."""
_ROUNDING = 1e-5
"""Rounding error of float32 cosines; texts within it count as equally near."""


@dataclass(frozen=True)
class Hit:
    """A text found by a search, with its cosine to the query; `metadata` holds its other columns.

    Hybrid search ranks by the score `hybrid`, which fuses the cosine and `bm25`. `bm25` is 0 if the
    text shares no word with the query.
    """

    id: str
    cosine: float
    text: str
    metadata: dict[str, Value]
    bm25: float | None = None
    hybrid: float | None = None


Key: TypeAlias = tuple[str, str]
"""Id of a text, and id of its row."""
Cells: TypeAlias = tuple[Any, ...]
"""Text, metadata and file of a row."""


class Row(NamedTuple):
    """A text with the id of its row, and metadata in the types of the columns.

    Attributes:
        file: name of the row's file; `None` if the row was not read from a file.
        passage: number of the passage that the text is, from 1.
        passages: number of passages of the row; 1 if the text is the whole row.
    """

    text: str
    id: str
    metadata: Mapping[str, Value]
    file: str | None = None
    passage: int = 1
    passages: int = 1

    @property
    def key(self) -> Key:
        """The key of the text in the index; a row may have the id of another row's passage.

        >>> Row("A text", "posts.csv:7", {}).key
        ('posts.csv:7', 'posts.csv:7')
        >>> Row("A passage", "posts.csv:7", {}, passage=2, passages=3).key
        ('posts.csv:7#2', 'posts.csv:7')
        """
        return (f"{self.id}#{self.passage}" if self.passages > 1 else self.id), self.id


def in_slices(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows, `SLICE` or a few more at a time; the passages of a row are in one slice."""
    some: list[Row] = []
    for row in rows:
        if len(some) >= SLICE and row.passage == 1:
            yield some
            some = []
        some.append(row)
    if some:
        yield some


@dataclass(frozen=True)
class Changes:
    """Counts of rows: each is added, replaced, unchanged or empty, or its id is repeated.

    Each passage of a long row counts as a row.

    Attributes:
        added: rows with new ids.
        replaced: rows whose text, metadata or file changed.
        unchanged: rows that are in the index as they are, and are not encoded again.
        empty: rows without text, which are left out.
        deleted: rows deleted because their text is empty now, their file no longer has them, or
            their long row is split differently.
        repeated_ids: rows whose id a later row of their slice has. A later row of another slice
            counts as replaced, since the earlier row was written.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    empty: int = 0
    deleted: int = 0
    repeated_ids: int = 0

    def __add__(self, other: Changes) -> Changes:
        return Changes(*map(operator.add, astuple(self), astuple(other)))


class Database:
    """Rows of id, text, vector and metadata on disk.

    Every method raises `UserError` if the files cannot be read or written. Vectors with `dim`
    dimensions are stored in the form `form`; vectors of queries have length 1.
    """

    def __init__(
        self,
        folder: Path,
        columns: Mapping[str, ColumnType],
        dim: int,
        form: FormName,
        new: bool,
    ) -> None:
        self.folder, self.columns, self._dim, self._form = folder, columns, dim, form
        self._lancedb = lancedb()
        with self._working("opened"):
            # Interval 0: a search sees all earlier writes of other processes.
            place = self._lancedb.connect(folder, read_consistency_interval=timedelta(0))
            if new:
                self._table = place.create_table(_TABLE, schema=self._schema, mode="overwrite")
            else:
                self._table = place.open_table(_TABLE)
            schema = self._table.schema
        if not schema.equals(self._schema):
            raise UserError(
                f"{folder}: the index is damaged (its table and its isospace.json name different "
                "columns). Index the texts anew into another folder"
            )

    @cached_property
    def _schema(self) -> pa.Schema:
        bits = [vector_field(_BITS, "binary", self._dim)] if self._rescored else []
        return pa.schema(
            [
                _key_field("id"),
                pa.field("text", pa.string()),
                vector_field("vector", numbers_of(self._form), self._dim),
                *bits,
                *(pa.field(name, _ARROW[type_]) for name, type_ in self.columns.items()),
                pa.field(_FILE, pa.string()),
                _key_field(_ROW),
            ]
        )

    @property
    def _rescored(self) -> bool:
        """True if numbers rank the candidates that bits have found."""
        return self._form == "binary-rescored"

    @contextmanager
    def _working(self, what: str, where: str | None = None) -> Iterator[None]:
        """Turn every error inside into a `UserError` about the filter or the disk."""
        try:
            yield
        except Exception as error:  # LanceDB raises ValueError, RuntimeError and Rust's panics
            if where is not None:
                usable: dict[str, ColumnType] = {"id": "str", "text": "str", **self.columns}
                names = ", ".join(f"{name} ({_WORDS[type_]})" for name, type_ in usable.items())
                # Lance goes on with all its columns, of which users know only some.
                reason = first_line(error).partition(" Valid fields are ")[0].rstrip(".")
                raise UserError(
                    f"filter {where!r} ({reason}): give an SQL condition on the columns "
                    f"{names}, such as id = 'a'"
                ) from error
            raise UserError(
                f"{self.folder}: the index cannot be {what} ({first_line(error)}). Check whether "
                "the disk is full. If it is not, the index is damaged: index the texts anew into "
                "another folder"
            ) from error

    def count(self, where: str | None = None) -> int:
        """Return the number of rows, or of rows that match a filter."""
        condition = _condition(where)
        with self._working("read", where):
            return int(self._table.count_rows(condition))

    def rows(self) -> Iterator[str]:
        """Yield the id of the row of each text."""
        return self._values(_ROW)

    def files(self) -> Counter[str]:
        """Return the number of rows of each file."""
        return Counter(file for file in self._values(_FILE) if file is not None)

    def _values(self, column: str) -> Iterator[Any]:
        with self._working("read"):
            for batch in self._table.search().select([column]).to_batches():
                yield from batch[column].to_pylist()

    def _known(self, rows: Iterable[str]) -> dict[Key, Cells]:
        """Return the cells of rows, or of their passages."""
        names = ["id", _ROW, "text", *self.columns, _FILE]
        with self._working("read"):
            query = self._table.search().where(self._lancedb.col(_ROW).isin(list(rows)))
            found = query.select(names).to_arrow()
        key, row, *values = (found[name].to_pylist() for name in names)
        return dict(zip(zip(key, row, strict=True), zip(*values, strict=True), strict=True))

    def put_unencoded(self, rows: Sequence[Row]) -> tuple[dict[Key, Cells], Changes]:
        """Delete what is not wanted any more, and return the rows of a slice to encode.

        Rows without text are deleted, and old passages of rows that are now split differently. They
        are deleted before anything is written: after a kill, the next command then writes the
        missing rows. Of rows with the same id, the last counts.

        Returns:
            The rows to encode and write, and the counts of all changes.
        """
        passages = {row.id: row.passages for row in rows}
        wanted: dict[Key, Cells] = {}
        for row in rows:
            if row.passages == passages[row.id]:
                text = without_surrogates(normalise(row.text))
                wanted[row.key] = (text, *row.metadata.values(), row.file)
        known = self._known(passages)
        empty = {key for key, (text, *_) in wanted.items() if not text.strip()}
        changed = {
            key: values
            for key, values in wanted.items()
            if key not in empty and known.get(key) != values
        }
        if gone := list(known.keys() - (wanted.keys() - empty)):
            keys, of_rows = map(list, zip(*gone, strict=True))
            column = self._lancedb.col
            self._delete(column("id").isin(keys) & column(_ROW).isin(of_rows))
        replaced = len(changed.keys() & known.keys())
        unchanged = len(wanted) - len(empty) - len(changed)
        repeated = len(rows) - len(wanted)
        added = len(changed) - replaced
        changes = Changes(added, replaced, unchanged, len(empty), len(gone), repeated)
        return changed, changes

    def write(self, rows: Mapping[Key, Cells], vectors: np.ndarray) -> None:
        """Add rows with their vectors (row, dim), or replace rows with the same ids, atomically."""
        names = "id", _ROW, "text", *self.columns, _FILE
        values = zip(*((*key, *values) for key, values in rows.items()), strict=True)
        columns: dict[str, Any] = dict(zip(names, values, strict=True))
        columns["vector"] = as_lists(compressed(vectors, numbers_of(self._form)))
        if self._rescored:
            columns[_BITS] = as_lists(compressed(vectors, "binary"))
        with self._working("written"):
            merge = self._table.merge_insert(["id", _ROW]).when_matched_update_all()
            merge.when_not_matched_insert_all().execute(pa.table(columns, self._schema))

    def remove_rows(self, rows: Iterable[str]) -> int:
        """Delete rows with all their passages; return the number of deleted texts."""
        return self._remove(_ROW, rows)

    def remove_files(self, files: Iterable[str]) -> int:
        """Delete the rows of these files; return the number of deleted texts."""
        return self._remove(_FILE, files)

    def _remove(self, column: str, values: Iterable[str]) -> int:
        deleted, values = 0, iter(values)
        while some := list(islice(values, SLICE)):
            deleted += self._delete(self._lancedb.col(column).isin(some))
        return deleted

    def delete(self, where: str) -> int:
        """Delete the rows that match a filter; return their number."""
        return self._delete(_condition(where), where)

    def _delete(self, condition: Any, where: str | None = None) -> int:
        with self._working("written", where):
            return int(self._table.delete(condition).num_deleted_rows)

    def nearest(
        self, vector: np.ndarray, k: int, where: str | None, approximate: bool
    ) -> dict[Key, Hit]:
        """Return the k rows with the highest cosines to a vector (dim,), best first.

        With `approximate`, use the approximate index; rows that are not in it are compared exactly.
        If numbers and bits are stored, the numbers rank the candidates that the bits have found.
        """
        condition, names = _condition(where), ["id", _ROW, "text", *self.columns, "_distance"]
        with self._working("searched", where):
            if self._rescored:
                query = self._table.search(np.packbits(vector > 0), _BITS).distance_type("hamming")
                query, names = query.limit(max(k, RESCORED)), [*names, "vector"]
            elif not has_floats(self._form):
                return self._nearest_by_scan(vector, k, condition)
            else:
                query = self._table.search(vector, "vector").limit(k)
                if approximate:
                    query = query.distance_type("cosine").refine_factor(_REFINE)
                    query = query.minimum_nprobes(_PROBES).maximum_nprobes(0)
                else:
                    # Cosine distance would drop zero vectors; all other vectors have length 1.
                    query = query.distance_type("dot").bypass_vector_index()
            found = _filtered(query, condition).select(names).to_arrow()
        if self._rescored:
            cosines = self._restored(found["vector"]) @ vector
        else:
            cosines = 1 - found["_distance"].to_numpy().astype(float)
        rows = found.to_pylist()
        return self._hits((rows[at], float(cosines[at])) for at in highest(cosines, k))

    def _nearest_by_scan(self, vector: np.ndarray, k: int, condition: Any) -> dict[Key, Hit]:
        """Compare a vector with every row; LanceDB cannot search this type of numbers."""
        query = _filtered(self._table.search(), condition).select(["id", _ROW, "vector"])
        kept = [self._schema.empty_table().select(["id", _ROW])]

        def slices() -> Iterator[np.ndarray]:
            for batch in query.to_batches():
                kept.append(pa.Table.from_batches([batch.select(["id", _ROW])]))
                yield self._restored(batch["vector"])

        [near] = nearest(vector[None], slices(), k)
        keys = pa.concat_tables(kept).take(near.rows).to_pydict()
        found = self._table.search().where(self._lancedb.col("id").isin(keys["id"]))
        names = ["id", _ROW, "text", *self.columns]
        rows = {(row["id"], row[_ROW]): row for row in found.select(names).to_list()}
        best = zip(keys["id"], keys[_ROW], strict=True)
        hits = zip(best, near.products.tolist(), strict=True)
        return self._hits((rows[key], cosine) for key, cosine in hits if key in rows)

    def nearest_by_both(
        self,
        query: str,
        vector: np.ndarray,
        k: int,
        where: str | None,
        approximate: bool,
        weight: float,
        sample: np.ndarray,
    ) -> list[Hit]:
        """Return the k best rows by cosine and BM25 together (`fusion.fuse`).

        The candidates are the 100 nearest by cosine and the 100 best by BM25. LanceDB's own hybrid
        query is unsuitable. It scales both scores by the candidates only, and gives BM25 0 to a
        near row that is not among the best by BM25.

        The query's `vector` (dim,) has length 1. `sample` has (n, dim) vectors of some rows, for
        the spread of the query's cosines.
        """
        depth = max(k, _DEPTH)
        near = self.nearest(vector, depth, where, approximate)
        if not near:
            return []
        matching = self._matching(query, vector, depth, _condition(where))
        if matching:
            # An id has two rows at most: the other one may not match the filter.
            among = self._lancedb.col("id").isin([key for key, _ in near])
            words = self._matching(query, vector, 2 * len(near), among)
            matching |= {key: hit for key, hit in words.items() if key in near}
        hits = near | matching
        cosines = np.array([hit.cosine for hit in hits.values()])
        bm25 = np.array([hit.bm25 or 0.0 for hit in hits.values()])
        [scores] = fuse(cosines[None], bm25[None], weight, np.array([np.std(sample @ vector)]))
        found = [
            replace(hit, bm25=float(words), hybrid=float(score))
            for hit, words, score in zip(hits.values(), bm25, scores, strict=True)
        ]
        return [found[place] for place in highest(scores, k)]

    def measure_recall(self, rows: int) -> tuple[float, int]:
        """Return the recall of the approximate index, and the number of queries.

        The queries are rows spread evenly over the index. Recall is the mean share of the 10
        nearest rows that the approximate index finds, without the query itself.
        """
        ids, queries = self.sample(rows, RECALL_QUERIES)
        shares = []
        # One more than RECALL_AT, since the query is nearest to itself.
        truly_nearest = nearest(queries, self.vectors(), RECALL_AT + 1)
        for key, query, near in zip(ids, queries, truly_nearest, strict=True):
            lowest = float(near.products[-1]) - _ROUNDING
            hits = self.nearest(query, RECALL_AT + 1, None, approximate=True)
            cosines = [hit.cosine for hit in hits.values() if hit.id != key][:RECALL_AT]
            shares.append(sum(cosine >= lowest for cosine in cosines) / RECALL_AT)
        return float(np.mean(shares)), len(ids)

    def _matching(self, text: str, vector: np.ndarray, k: int, condition: Any) -> dict[Key, Hit]:
        """Return the k rows with the highest BM25 for a text that fulfil a condition, best first.

        `vector` is the text's vector, (dim,) of length 1, for the cosines of the hits.
        """
        with self._working("searched"):
            match = self._lancedb.query.MatchQuery(text, "text")
            query = self._table.search(match, query_type="fts").limit(k)
            names = ["id", _ROW, "text", "vector", *self.columns, "_score"]
            rows = _filtered(query, condition).select(names).to_arrow()
        cosines = (self._restored(rows["vector"]) @ vector).tolist()
        return self._hits(zip(rows.drop_columns("vector").to_pylist(), cosines, strict=True))

    def _hits(self, found: Iterable[tuple[Mapping[str, Any], float]]) -> dict[Key, Hit]:
        """Return the hits of rows with their cosines, in the same order."""
        hits = {}
        for row, cosine in found:
            metadata = {name: row[name] for name in self.columns}
            hit = Hit(row["id"], cosine, row["text"], metadata, row.get("_score"))
            hits[row["id"], row[_ROW]] = hit
        return hits

    def vectors(self) -> Iterator[np.ndarray]:
        """Yield all vectors in parts, (rows, dim) each."""
        with self._working("read"):
            for batch in self._table.search().select(["vector"]).to_batches():
                yield self._restored(batch["vector"])

    def _restored(self, column: Any) -> np.ndarray:
        """Return the float32 vectors (row, dim) of a column of stored numbers."""
        numbers = pc.list_flatten(column).to_numpy().reshape(-1, column.type.list_size)
        return restored(numbers, self._dim)

    def sample(self, rows: int, at_most: int) -> tuple[list[str], np.ndarray]:
        """Return ids and vectors (n, dim) of rows spread evenly over the first `rows` rows."""
        places = np.unique(np.linspace(0, rows - 1, at_most, dtype=np.int64)).tolist()
        with self._working("read"):
            table = self._table.take_offsets(places).select(["id", "vector"]).to_arrow()
        return table["id"].to_pylist(), self._restored(table["vector"])

    def index_words(self) -> None:
        """Build the word index; if it exists, update all indices and delete obsolete files."""
        with self._working("written"):
            if any(index.name == "text" for index in self._table.list_indices()):
                self._table.optimize(cleanup_older_than=_OLD)
                return
            # ICU finds words in all languages; stems and stop words would suit only one language.
            # Names are split into parts, and long codes are kept, as by `bm25_terms`.
            config = self._lancedb.index.FTS(
                base_tokenizer="icu/split",
                max_token_length=None,
                stem=False,
                remove_stop_words=False,
            )
            self._table.create_index("text", config=config, name="text")

    def index_vectors(self) -> None:
        """Train the approximate index on all rows."""
        with self._working("written"):
            config = self._lancedb.index.IvfSq(distance_type="cosine", target_partition_size=_GROUP)
            self._table.create_index("vector", config=config, name="vector")


def _key_field(name: str) -> pa.Field:
    """Return the field of a part of the key.

    If two processes add the same row at the same time, Lance adds it twice unless it knows the key.
    """
    known = {"lance-schema:unenforced-primary-key": "true"}
    return pa.field(name, pa.string(), nullable=False, metadata=known)


def _filtered(query: Any, condition: Any) -> Any:
    return query if condition is None else query.where(condition)


def lancedb() -> Any:
    """Import lancedb, or say how to install it."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # read at import; hides warnings for developers
    return import_extra("an index", "search", "lancedb")
