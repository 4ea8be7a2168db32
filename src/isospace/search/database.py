"""The table of an index; the only module that uses LanceDB."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isospace.errors import UserError, first_line
from isospace.operators.compression import compressed, restored
from isospace.operators.forms import RESCORED, FormName, has_floats, numbers_of
from isospace.operators.fusion import fuse
from isospace.operators.nearest import highest, nearest
from isospace.search.columns import TYPE_WORDS, ColumnType, Value
from isospace.system.imports import import_extra
from isospace.system.unicode import normalise, without_surrogates
from isospace.vectors.vector_files import as_lists, vector_field

SLICE = 4096
"""Number of rows, of one file or many, that are written together; a kill loses at most these."""

_TABLE = "texts"
FILE = "_file"
"""Column with the file of a row; null if the row was not read from a file."""
ROW = "_row"
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
"""Id of a text, and id of its row; a row may have the id of another row's passage."""
Cells: TypeAlias = tuple[Any, ...]
"""Text, metadata and file of a row."""


class Row(NamedTuple):
    """A text with the id of its row, and metadata in the types of the columns.

    `file` is `None` if the row was not read from a file. A long row has several `passages`, of
    which the text is one, counted from 1.
    """

    text: str
    id: str
    metadata: Mapping[str, Value]
    file: str | None = None
    passage: int = 1
    passages: int = 1

    @property
    def key(self) -> Key:
        """The key of the text in the index.

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
    """Counts of rows; each passage of a long row counts as a row.

    Attributes:
        replaced: rows of the index or of this command that gave way to a row with their id.
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


@dataclass(frozen=True)
class Slice:
    """Rows that are written together, and what changes by them.

    Afterwards, the index has `wanted` of the rows with these ids. Its part `changed` must be
    encoded and written, and the texts `gone` must be deleted.
    """

    rows: Iterable[str]
    wanted: Mapping[Key, Cells]
    changed: Mapping[Key, Cells]
    gone: Sequence[Key]
    changes: Changes


class Database:
    """Rows of id, text, vector and metadata in a folder, which may be empty.

    Every method raises `UserError` if the files cannot be read or written. Vectors with `dim`
    dimensions are stored in the form `form`; vectors of queries have length 1.
    """

    def __init__(
        self, folder: Path, columns: Mapping[str, ColumnType], dim: int, form: FormName
    ) -> None:
        self.folder, self.columns, self._dim, self._form = folder, columns, dim, form
        self._lancedb = lancedb()
        self._schema = _schema(columns, dim, form)
        with self._working("opened"):
            # Interval 0: a search sees all earlier writes of other processes.
            place = self._lancedb.connect(folder, read_consistency_interval=timedelta(0))
            self._table = place.create_table(_TABLE, schema=self._schema, exist_ok=True)

    @contextmanager
    def _working(self, what: str, where: str | None = None) -> Iterator[str | None]:
        """Give the condition of a filter; turn errors into a `UserError` on filter or disk."""
        condition = _condition(where)
        try:
            yield condition
        except Exception as error:  # LanceDB raises ValueError, RuntimeError and Rust's panics
            if where is not None:
                usable: dict[str, ColumnType] = {"id": "str", "text": "str", **self.columns}
                names = ", ".join(f"{name} ({TYPE_WORDS[type_]})" for name, type_ in usable.items())
                # Lance goes on with all its columns, of which users know only some.
                reason = first_line(error).partition(" Valid fields are ")[0].rstrip(".")
                raise UserError(
                    f"filter {where!r} ({reason}): give an SQL condition on the columns "
                    f"{names}, such as id = 'a'"
                ) from error
            raise UserError(
                f"{self.folder}: the index cannot be {what} ({first_line(error)}). Check whether "
                "the disk is full. If it is not, index the texts anew into another folder"
            ) from error

    def count(self, where: str | None = None) -> int:
        """Return the number of rows, or of rows that match a filter."""
        with self._working("read", where) as condition:
            return int(self._table.count_rows(condition))

    def values(self, column: str) -> Iterator[Any]:
        """Yield a value of each text, such as the id of its row (`ROW`)."""
        with self._working("read"):
            for batch in self._table.search().select([column]).to_batches():
                yield from batch[column].to_pylist()

    def compare(self, rows: Sequence[Row], ahead: Iterable[Slice] = ()) -> Slice:
        """Compare rows with the index. Of rows with the same id, the last counts.

        `ahead` are slices, in order, that will be written before this one.
        """
        passages = {row.id: row.passages for row in rows}
        given: dict[Key, Cells] = {}
        for row in rows:
            if row.passages == passages[row.id]:
                text = without_surrogates(normalise(row.text))
                given[row.key] = (text, *row.metadata.values(), row.file)
        wanted = {key: cells for key, cells in given.items() if cells[0].strip()}
        known = self._known(passages)
        for earlier in ahead:
            known = {key: cells for key, cells in known.items() if key[1] not in earlier.rows}
            known |= {key: cells for key, cells in earlier.wanted.items() if key[1] in passages}
        changed = {key: cells for key, cells in wanted.items() if known.get(key) != cells}
        gone = [key for key in known if key not in wanted]
        old = len(changed.keys() & known.keys())
        changes = Changes(
            added=len(changed) - old,
            replaced=old + len(rows) - len(given),
            unchanged=len(wanted) - len(changed),
            empty=len(given) - len(wanted),
            deleted=len(gone),
        )
        return Slice(passages.keys(), wanted, changed, gone, changes)

    def _known(self, rows: Iterable[str]) -> dict[Key, Cells]:
        """Return the cells of rows, or of their passages."""
        names = ["id", ROW, "text", *self.columns, FILE]
        with self._working("read"):
            query = self._table.search().where(self._among(ROW, rows))
            found = query.select(names).to_arrow()
        key, row, *values = (found[name].to_pylist() for name in names)
        return dict(zip(zip(key, row, strict=True), zip(*values, strict=True), strict=True))

    def write(self, some: Slice, vectors: np.ndarray) -> None:
        """Delete what is gone by a slice, then write its changed rows with vectors (row, dim).

        Each of the two is atomic. After a kill between them, the next command writes the rows.
        """
        if some.gone:
            keys, rows = zip(*some.gone, strict=True)
            self._delete(self._among("id", keys) & self._among(ROW, rows))
        if not some.changed:
            return
        names = "id", ROW, "text", *self.columns, FILE
        values = zip(*((*key, *cells) for key, cells in some.changed.items()), strict=True)
        columns: dict[str, Any] = dict(zip(names, values, strict=True))
        columns["vector"] = as_lists(compressed(vectors, numbers_of(self._form)))
        if self._form == "binary-rescored":
            columns[_BITS] = as_lists(compressed(vectors, "binary"))
        with self._working("written"):
            merge = self._table.merge_insert(["id", ROW]).when_matched_update_all()
            merge.when_not_matched_insert_all().execute(pa.table(columns, self._schema))

    def remove(self, column: str, values: Iterable[str]) -> int:
        """Delete the texts with one of these values; return their number."""
        return self._delete(self._among(column, values))

    def delete(self, where: str) -> int:
        """Delete the rows that match a filter; return their number."""
        return self._delete(_condition(where), where)

    def _delete(self, condition: Any, where: str | None = None) -> int:
        with self._working("written", where):
            return int(self._table.delete(condition).num_deleted_rows)

    def _among(self, column: str, values: Iterable[str]) -> Any:
        return self._lancedb.col(column).isin(list(values))

    def nearest(
        self, vector: np.ndarray, k: int, where: str | None, approximate: bool
    ) -> dict[Key, Hit]:
        """Return the k rows with the highest cosines to a vector (dim,), best first.

        With `approximate`, use the approximate index; rows that are not in it are compared exactly.
        If numbers and bits are stored, the numbers rank the candidates that the bits have found.
        """
        with self._working("searched", where) as condition:
            if self._form == "binary-rescored":
                query = self._table.search(np.packbits(vector > 0), _BITS).distance_type("hamming")
                query = query.limit(max(k, RESCORED))
            elif not has_floats(self._form):
                query = self._table.search().where(
                    self._among("id", self._scan(vector, k, condition))
                )
            elif approximate:
                query = self._table.search(vector, "vector").distance_type("cosine").limit(k)
                query = query.refine_factor(_REFINE).minimum_nprobes(_PROBES).maximum_nprobes(0)
            else:
                # Cosine distance would drop zero vectors; all other vectors have length 1.
                query = self._table.search(vector, "vector").distance_type("dot").limit(k)
                query = query.bypass_vector_index()
            return self._hits(_filtered(query, condition), vector, k)

    def _scan(self, vector: np.ndarray, k: int, condition: str | None) -> list[str]:
        """Return the ids of the k nearest rows, where LanceDB cannot compare the numbers."""
        ids: list[str] = []

        def parts() -> Iterator[np.ndarray]:
            query = _filtered(self._table.search(), condition).select(["id", "vector"])
            for batch in query.to_batches():
                ids.extend(batch["id"].to_pylist())
                yield self._restored(batch["vector"])

        [near] = nearest(vector[None], parts(), k)
        return [ids[row] for row in near.rows]

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

        `sample` has (n, dim) vectors of some rows, for the spread of the query's cosines.
        """
        depth = max(k, _DEPTH)
        near = self.nearest(vector, depth, where, approximate)
        if not near:
            return []
        matching = self._matching(query, vector, depth, where)
        if matching:
            matching |= self._matching(query, vector, 2 * len(near), where, [i for i, _ in near])
        hits = near | matching
        cosines = np.array([hit.cosine for hit in hits.values()])
        bm25 = np.array([hit.bm25 or 0.0 for hit in hits.values()])
        [scores] = fuse(cosines[None], bm25[None], weight, np.array([np.std(sample @ vector)]))
        found = [
            replace(hit, bm25=float(words), hybrid=float(score))
            for hit, words, score in zip(hits.values(), bm25, scores, strict=True)
        ]
        return [found[place] for place in highest(scores, k)]

    def _matching(
        self,
        text: str,
        vector: np.ndarray,
        k: int,
        where: str | None,
        among: Sequence[str] | None = None,
    ) -> dict[Key, Hit]:
        """Return the k rows with the highest BM25 for a text; of all rows, or of these ids."""
        with self._working("searched", where) as condition:
            match = self._lancedb.query.MatchQuery(text, "text")
            query = _filtered(self._table.search(match, query_type="fts").limit(k), condition)
            if among is not None:
                query = query.where(self._among("id", among))
            return self._hits(query, vector, k, "_score")

    def _hits(self, query: Any, vector: np.ndarray, k: int, *scores: str) -> dict[Key, Hit]:
        """Return the k rows of a query that are nearest to a vector, best first."""
        names = ["id", ROW, "text", "vector", *self.columns, *scores]
        found = query.select(names).to_arrow()
        cosines = self._restored(found["vector"]) @ vector
        rows = found.drop_columns("vector").to_pylist()
        hits = {}
        for place in highest(cosines, k):
            row, cosine = rows[place], float(cosines[place])
            metadata = {name: row[name] for name in self.columns}
            hit = Hit(row["id"], cosine, row["text"], metadata, row.get("_score"))
            hits[row["id"], row[ROW]] = hit
        return hits

    def measure_recall(self, rows: int) -> tuple[float, int]:
        """Return the recall of the approximate index, and the number of queries.

        The queries are rows of the index. Recall is the mean share of their 10 nearest rows that
        the approximate index finds, without the query itself.
        """
        ids, queries = self.sample(rows, RECALL_QUERIES)
        shares = []
        # One more than RECALL_AT, since the query is nearest to itself.
        truly_nearest = nearest(queries, self._vectors(), RECALL_AT + 1)
        for key, query, near in zip(ids, queries, truly_nearest, strict=True):
            lowest = float(near.products[-1]) - _ROUNDING
            hits = self.nearest(query, RECALL_AT + 1, None, approximate=True)
            cosines = [hit.cosine for hit in hits.values() if hit.id != key][:RECALL_AT]
            shares.append(sum(cosine >= lowest for cosine in cosines) / RECALL_AT)
        return float(np.mean(shares)), len(ids)

    def _vectors(self) -> Iterator[np.ndarray]:
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


def _schema(columns: Mapping[str, ColumnType], dim: int, form: FormName) -> pa.Schema:
    # If two processes add the same row at the same time, Lance adds it twice unless it knows the
    # key.
    key = {"lance-schema:unenforced-primary-key": "true"}
    bits = [vector_field(_BITS, "binary", dim)] if form == "binary-rescored" else []
    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False, metadata=key),
            pa.field("text", pa.string()),
            vector_field("vector", numbers_of(form), dim),
            *bits,
            *(pa.field(name, _ARROW[type_]) for name, type_ in columns.items()),
            pa.field(FILE, pa.string()),
            pa.field(ROW, pa.string(), nullable=False, metadata=key),
        ]
    )


def _condition(where: str | None) -> str | None:
    """Return a filter in parentheses, since LanceDB ignores an end that it cannot parse.

    Without them, it would read `year > 3 ADN kind = 'a'` as `year > 3`.
    """
    if where is None:
        return None
    if not where.strip():
        raise UserError("the filter is empty. Give an SQL condition, such as id = 'a'")
    return f"({without_surrogates(where)}\n)"  # on a line of its own: it may end in a comment


def _filtered(query: Any, condition: str | None) -> Any:
    return query if condition is None else query.where(condition)


def lancedb() -> Any:
    """Import lancedb, or say how to install it."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # read at import; hides warnings for developers
    return import_extra("an index", "search", "lancedb")
