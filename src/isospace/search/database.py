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
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from isospace.errors import UserError, first_line
from isospace.operators.compression import Compression
from isospace.operators.forms import RESCORED
from isospace.operators.fusion import fuse
from isospace.operators.nearest import highest, nearest
from isospace.system.imports import import_extra
from isospace.system.unicode import normalise, without_surrogates
from isospace.vectors.vector_files import as_lists

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


SLICE = 4096
"""Number of rows, of one file or many, that are written together; a kill loses at most these."""

_TABLE = "texts"
_FILE = "_file"
"""Column with the file of a row; null if the row was not read from a file."""
_PASSAGE_OF = "_passage_of"
"""Column with the id of the long row that a passage belongs to."""
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


@dataclass(frozen=True)
class Changes:
    """Counts of rows: each is added, replaced, unchanged or empty.

    Each passage of a long row counts as a row.

    Attributes:
        added: rows with new ids.
        replaced: rows whose text, metadata or file changed.
        unchanged: rows that are in the index as they are, and are not encoded again.
        empty: rows without text, which are left out.
        deleted: rows deleted because their text is empty now, their file no longer has them, or
            their long row is split differently.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    empty: int = 0
    deleted: int = 0

    def __add__(self, other: Changes) -> Changes:
        return Changes(*map(operator.add, astuple(self), astuple(other)))


class Database:
    """Rows of id, text, vector and metadata on disk.

    Every method raises `UserError` if the files cannot be read or written. `compression` defines
    how vectors are stored; query vectors must come from `compression.queries`.
    """

    def __init__(
        self, folder: Path, columns: Mapping[str, ColumnType], compression: Compression, new: bool
    ) -> None:
        self.folder, self.columns, self.compression = folder, columns, compression
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
        dim, form = self.compression.dim, self.compression.form
        bits = pa.list_(pa.uint8(), -(-dim // 8))
        binary = form.numbers == "binary"
        vector = bits if binary else pa.list_(pa.from_numpy_dtype(np.dtype(form.numbers)), dim)
        return pa.schema(
            [
                pa.field("id", pa.string()),
                pa.field("text", pa.string()),
                pa.field("vector", vector),
                *([pa.field(_BITS, bits)] if form.rescored else []),
                *(pa.field(name, _ARROW[type_]) for name, type_ in self.columns.items()),
                pa.field(_FILE, pa.string()),
                pa.field(_PASSAGE_OF, pa.string()),
            ]
        )

    @contextmanager
    def _working(self, what: str, where: str | None = None) -> Iterator[None]:
        """Turn every error inside into a `UserError` about the filter or the disk."""
        try:
            yield
        except Exception as error:  # LanceDB raises ValueError, RuntimeError and Rust's panics
            if where is not None:
                raise bad_filter(where, error, self.columns) from error
            raise UserError(
                f"{self.folder}: the index cannot be {what} ({first_line(error)}). Check whether "
                "the disk is full. If it is not, the index is damaged: index the texts anew into "
                "another folder"
            ) from error

    def count(self, where: str | None = None) -> int:
        """Return the number of rows, or of rows that match a filter."""
        condition = condition_of(where)
        with self._working("read", where):
            return int(self._table.count_rows(condition))

    def ids(self, files: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
        """Yield ids, each with the id of the long row that it is a passage of, or itself.

        With `files`, only ids that begin with "FILE:", of one of these files.
        """
        column = self._lancedb.col("id")
        # ";" is next to ":".
        begin = [(column >= f"{file}:") & (column < f"{file};") for file in files]
        query = self._table.search()
        if begin:
            query = query.where(reduce(operator.or_, begin))
        names = ["id", _PASSAGE_OF]
        with self._working("read"):
            for batch in query.select(names).to_batches():
                ids, rows = (batch[name].to_pylist() for name in names)
                yield from ((key, row or key) for key, row in zip(ids, rows, strict=True))

    def _known(self, rows: Sequence[str]) -> dict[str, tuple[Value, ...]]:
        """Return id -> text, metadata, file and long row, of rows and of their passages."""
        names = ["text", *self.columns, _FILE, _PASSAGE_OF]
        column = self._lancedb.col
        condition = column("id").isin(rows) | column(_PASSAGE_OF).isin(rows)
        with self._working("read"):
            found = self._table.search().where(condition).select(["id", *names]).to_arrow()
        key, *values = (found[name].to_pylist() for name in ("id", *names))
        return dict(zip(key, zip(*values, strict=True), strict=True))

    def put_unencoded(self, rows: Sequence[Row]) -> tuple[dict[str, tuple[Any, ...]], Changes]:
        """Delete what is not wanted any more, and return the rows to encode.

        Rows without text are deleted, and old passages of rows that are now split differently. They
        are deleted before anything is written: after a kill, the next command then writes the
        missing rows. Of rows with the same id, the last counts.

        Returns:
            id -> text, metadata, file and long row, of the rows to encode and write; and the counts
            of all changes.

        Raises:
            UserError: a row has the id of a passage of another row.
        """
        passages = {row.id: row.passages for row in rows}
        wanted: dict[str, tuple[Any, ...]] = {}
        for row in rows:
            if row.passages == passages[row.id]:
                key = passage_id(row.id, row.passage, row.passages)
                text = without_surrogates(normalise(row.text))
                of = row.id if key != row.id else None
                wanted[key] = (text, *row.metadata.values(), row.file, of)
        current: dict[str, str] = {}
        for long_row, count in passages.items():
            for passage in range(1, count + 1):
                key = passage_id(long_row, passage, count)
                _require_same_row(key, current.setdefault(key, long_row), long_row)
        known = self._known([*passages, *(wanted.keys() - passages.keys())])
        rows_before = {key: str(values[-1] or key) for key, values in known.items()}
        others = {key for key, row in rows_before.items() if row not in passages}
        for key in others & wanted.keys():
            _require_same_row(key, rows_before[key], current[key])
        empty = {key for key, (text, *_) in wanted.items() if not text.strip()}
        changed = {
            key: row for key, row in wanted.items() if known.get(key) != row and key not in empty
        }
        # The passage a#2 of a row may have the id of a new long row a#2, and stays.
        if gone := sorted(known.keys() - others - (current.keys() - empty)):
            self.remove(gone)
        replaced = len(changed.keys() & known.keys())
        unchanged = len(wanted) - len(empty) - len(changed)
        changes = Changes(len(changed) - replaced, replaced, unchanged, len(empty), len(gone))
        return changed, changes

    def write(self, rows: Mapping[str, tuple[Value, ...]], vectors: np.ndarray) -> None:
        """Add rows, or replace rows with the same ids, atomically.

        `rows` has id -> text, metadata, file, and id of the long row if the row is a passage. The
        vectors are (row, dim) float32.
        """
        values = zip(*rows.values(), strict=True)
        names = "text", *self.columns, _FILE, _PASSAGE_OF
        columns = dict(zip(names, values, strict=True))
        stored = {"vector": as_lists(self.compression.numbers(vectors))}
        if self.compression.form.rescored:
            stored[_BITS] = as_lists(self.compression.bits(vectors))
        with self._working("written"):
            table = pa.table({"id": list(rows), **stored, **columns}, self._schema)
            merge = self._table.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(table)

    def remove(self, ids: Sequence[str], column: str = "id") -> None:
        """Delete rows by their ids."""
        with self._working("written"):
            for start in range(0, len(ids), SLICE):
                some = ids[start : start + SLICE]
                self._table.delete(self._lancedb.col(column).isin(some))

    def files(self) -> Counter[str]:
        """Return the number of rows of each file."""
        rows: Counter[str] = Counter()
        with self._working("read"):
            for batch in self._table.search().select([_FILE]).to_batches():
                rows.update(batch[_FILE].drop_null().to_pylist())
        return rows

    def remove_files(self, files: Sequence[str]) -> None:
        """Delete the rows of these files."""
        self.remove(files, _FILE)

    def delete(self, where: str) -> int:
        """Delete the rows that match a filter; return their number."""
        condition = condition_of(where)
        with self._working("written", where):
            return int(self._table.delete(condition).num_deleted_rows)

    def nearest(
        self, vector: np.ndarray, k: int, where: str | None, approximate: bool
    ) -> list[Hit]:
        """Return the k rows with the highest cosines to a vector (dim,), best first.

        With `approximate`, use the approximate index; rows that are not in it are compared exactly.
        """
        condition, form = condition_of(where), self.compression.form
        with self._working("searched", where):
            if form.bits:
                return self._nearest_by_bits(vector, k, condition)
            if not form.floats:
                return self._nearest_by_scan(vector, k, condition)
            query = self._table.search(vector, vector_column_name="vector").limit(k)
            if approximate:
                query = query.distance_type("cosine").refine_factor(_REFINE)
                query = query.minimum_nprobes(_PROBES).maximum_nprobes(0)
            else:
                # Cosine distance would drop zero vectors; all other vectors have length 1.
                query = query.distance_type("dot").bypass_vector_index()
            names = ["id", "text", *self.columns, "_distance"]
            rows = _filtered(query, condition).select(names).to_list()
        return [self._hit(row, 1 - row["_distance"]) for row in rows]

    def _nearest_by_bits(self, vector: np.ndarray, k: int, condition: Any) -> list[Hit]:
        """Find rows by their bits; if numbers are stored too, re-rank the candidates by them."""
        rescored = self.compression.form.rescored
        names = ["id", "text", *self.columns, "_distance", *(["vector"] if rescored else [])]
        query = self._table.search(
            np.packbits(vector > 0), vector_column_name=_BITS if rescored else "vector"
        )
        query = query.distance_type("hamming").limit(max(k, RESCORED) if rescored else k)
        rows = _filtered(query, condition).select(names).to_list()
        if not rescored:
            return [self._hit(row, 1 - 2 * row["_distance"] / len(vector)) for row in rows]
        numbers = np.array([row["vector"] for row in rows], np.int8).reshape(-1, len(vector))
        cosines = self.compression.restored(numbers) @ vector
        return [self._hit(rows[at], float(cosines[at])) for at in highest(cosines, k)]

    def _nearest_by_scan(self, vector: np.ndarray, k: int, condition: Any) -> list[Hit]:
        """Compare a vector with every row; LanceDB cannot search this type of numbers."""
        query = _filtered(self._table.search(), condition)
        ids: list[pa.Array] = []

        def slices() -> Iterator[np.ndarray]:
            for batch in query.select(["id", "vector"]).to_batches():
                ids.append(batch["id"])
                yield self._restored(batch["vector"])

        [near] = nearest(vector[None], slices(), k)
        keys = pa.chunked_array(ids, pa.string()).take(near.rows).to_pylist()
        found = self._table.search().where(self._lancedb.col("id").isin(keys))
        rows = {row["id"]: row for row in found.select(["id", "text", *self.columns]).to_list()}
        hits = zip(keys, near.products.tolist(), strict=True)
        return [self._hit(rows[key], cosine) for key, cosine in hits if key in rows]

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
        matching = self._matching(query, vector, depth, where)
        spread = float(np.std(sample @ vector))
        if not near:
            return []
        words = {hit.id: score for hit, score in matching}
        if words:
            words |= self._word_scores(query, [hit.id for hit in near if hit.id not in words])
        hits = list({hit.id: hit for hit in (*near, *(hit for hit, _ in matching))}.values())
        bm25 = [words.get(hit.id, 0.0) for hit in hits]
        [scores] = fuse(
            np.array([[hit.cosine for hit in hits]]), np.array([bm25]), weight, np.array([spread])
        )
        return [
            replace(hits[place], bm25=bm25[place], hybrid=float(scores[place]))
            for place in highest(scores, len(hits))[:k]
        ]

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
            cosines = [hit.cosine for hit in hits if hit.id != key][:RECALL_AT]
            shares.append(sum(cosine >= lowest for cosine in cosines) / RECALL_AT)
        return float(np.mean(shares)), len(ids)

    def _matching(
        self, text: str, vector: np.ndarray, k: int, where: str | None
    ) -> list[tuple[Hit, float]]:
        """Return the k rows with the highest BM25 for a text, best first, each with its BM25.

        `vector` is the text's vector, (dim,) of length 1, for the cosines of the hits.
        """
        condition = condition_of(where)
        with self._working("searched", where):
            match = self._lancedb.query.MatchQuery(text, "text")
            query = self._table.search(match, query_type="fts").limit(k)
            names = ["id", "text", "vector", *self.columns, "_score"]
            rows = _filtered(query, condition).select(names).to_arrow()
        cosines = (self._restored(rows["vector"].combine_chunks()) @ vector).tolist()
        found = zip(rows.drop_columns("vector").to_pylist(), cosines, strict=True)
        return [(self._hit(row, cosine), row["_score"]) for row, cosine in found]

    def _word_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Return id -> BM25 for a text; only rows of `ids` that share words with the text."""
        with self._working("searched"):
            match = self._lancedb.query.MatchQuery(text, "text")
            query = self._table.search(match, query_type="fts").limit(len(ids))
            query = query.where(self._lancedb.col("id").isin(ids), prefilter=True)
            rows = query.select(["id", "_score"]).to_list()
        return {row["id"]: row["_score"] for row in rows}

    def _hit(self, row: Mapping[str, Any], cosine: float) -> Hit:
        metadata = {name: row[name] for name in self.columns}
        return Hit(row["id"], cosine, row["text"], metadata)

    def vectors(self) -> Iterator[np.ndarray]:
        """Yield all vectors in parts, (rows, dim) each."""
        with self._working("read"):
            for batch in self._table.search().select(["vector"]).to_batches():
                yield self._restored(batch["vector"])

    def _restored(self, column: pa.FixedSizeListArray) -> np.ndarray:
        """Return the float32 vectors (row, dim) of a column of stored numbers."""
        numbers = column.flatten().to_numpy().reshape(-1, column.type.list_size)
        return self.compression.restored(numbers)

    def sample(self, rows: int, at_most: int) -> tuple[list[str], np.ndarray]:
        """Return ids and vectors (n, dim) of rows spread evenly over the first `rows` rows."""
        places = np.unique(np.linspace(0, rows - 1, at_most, dtype=np.int64)).tolist()
        with self._working("read"):
            table = self._table.take_offsets(places).select(["id", "vector"]).to_arrow()
        return table["id"].to_pylist(), self._restored(table["vector"].combine_chunks())

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


def passage_id(row: str, passage: int, passages: int) -> str:
    """Return the id of a passage, counted from 1; a row with one passage keeps its id.

    >>> passage_id("posts.csv:7", 1, 1), passage_id("posts.csv:7", 2, 3)
    ('posts.csv:7', 'posts.csv:7#2')
    """
    return f"{row}#{passage}" if passages > 1 else row


def _require_same_row(key: str, row: str, other: str) -> None:
    """Refuse a row whose id is also the id of a passage of a long row."""
    if row != other:
        long_row = other if row == key else row
        raise UserError(
            f"row {key}: a passage of the long row {long_row} has this id too. Give one of the two "
            f"rows another id. If row {long_row} is gone, first delete its passages (`delete` "
            "CONDITION)"
        )


def _filtered(query: Any, condition: str | None) -> Any:
    return query if condition is None else query.where(condition)


def lancedb() -> Any:
    """Import lancedb, or say how to install it."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # read at import; hides warnings for developers
    return import_extra("an index", "search", "lancedb")
