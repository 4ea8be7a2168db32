"""An index: texts with vectors and metadata on disk, and the model that made the vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import tee
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from isospace.corpus.characters import normalise
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.pooling import PoolingName
from isospace.encoders.prompts import Side
from isospace.errors import UserError
from isospace.evaluation.hybrid import require_weight
from isospace.operators.compression import Compression
from isospace.operators.forms import FULL, FormName
from isospace.operators.fusion import WEIGHT
from isospace.operators.nearest import unit_rows
from isospace.search.about import About, ApproximateIndex, load_model, require_room
from isospace.search.columns import ColumnType, check_names, check_types
from isospace.search.database import Database, Hit, lancedb
from isospace.search.embedder import require_k
from isospace.search.ranking import SPREAD_SAMPLE, measure_recall, nearest_by_both
from isospace.search.rows import SLICE, Changes, Row, passage_id, put_unencoded
from isospace.statistics.counts import number_of
from isospace.system.cluster import map_on_cluster
from isospace.system.files import expanded
from isospace.system.progress import Logged, Progress
from isospace.system.unicode import require_strings, without_surrogates
from isospace.vectors.compression_file import (
    FILE,
    fit_compression,
    read_compression,
    write_compression,
)

EXACT_ROWS = 20_000
"""Up to so many rows a query is compared with each."""


@dataclass(frozen=True)
class SearchResults:
    """The hits of each query, best first, and the protocol in words."""

    hits: list[list[Hit]]
    protocol: str


class SearchIndex:
    """Texts that can be searched by meaning, with filters on their metadata.

    `SearchIndex.create` and `SearchIndex.open` make one. Several processes may search at once, also
    while one adds.

    Examples:
        >>> index = SearchIndex.create("notes", columns={"year": "int"})  # doctest: +SKIP
        >>> index.add(["A cat sleeps."], ["a"], [{"year": 2001}])  # doctest: +SKIP
        Changes(added=1, replaced=0, unchanged=0, empty=0, deleted=0, repeated=0)
        >>> index.search("a resting animal", where="year > 2000").hits[0][0].id  # doctest: +SKIP
        'a'
    """

    def __init__(
        self,
        folder: Path,
        about: About,
        database: Database,
        encoder: Encoder | None,
        query_prompt: str | None = None,
    ) -> None:
        self.folder, self.about, self._database = folder, about, database
        self._encoder = encoder  # else loaded when it is needed
        self._query_prompt = query_prompt
        self._encoding = Lock()  # a tokenizer serves one thread at a time

    @classmethod
    def create(
        cls,
        folder: Path | str,
        model: str | Path = "minilm",
        columns: Mapping[str, ColumnType] | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        bm25_weight: float | None = None,
        pooling: PoolingName | None = None,
        compress: FormName = FULL,
        fit_on: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> SearchIndex:
        """Make an empty index.

        Args:
            folder: does not exist, or is empty.
            model: minilm, a model folder, a run's folder, or a Hub name.
            columns: of metadata, each with "str", "int", "float" or "bool".
            query_prompt: put before every query, as for `load_encoder`; the index keeps it.
            document_prompt: put before every text, in the same way.
            bm25_weight: of BM25 where a search is hybrid and names no other, such as the model's
                run has chosen; the index keeps it.
            pooling: of the vectors, as for `load_encoder`; the index keeps it.
            compress: the form in which vectors are stored, of `operators.forms.FORMS`.
            fit_on: texts like those to come, on which the form is fitted where it needs some.
            progress: where the fitting is shown; default: the log.

        Raises:
            UserError: there is something in the folder, the model cannot be loaded, a column cannot
                have its name or its type, a weight below 0, or lancedb is not installed.
        """
        lancedb()
        folder, columns = expanded(folder), dict(columns or {})
        check_names(columns)
        check_types(columns)
        if bm25_weight is not None:
            require_weight(bm25_weight)
        require_room(folder)
        encoder = load_encoder(
            str(model), pooling, query_prompt=query_prompt, document_prompt=document_prompt
        )
        require_room(folder)  # again: another command may have begun there meanwhile
        about = About.new(folder, encoder, columns, bm25_weight, pooling, compress)
        compression = fit_compression(compress, encoder, fit_on, progress or Logged())
        database = Database(folder, columns, compression, new=True)
        if compress != FULL:
            write_compression(folder / FILE, compression)
        about.write(folder)  # last: it is what makes the folder an index
        return cls(folder, about, database, encoder)

    @classmethod
    def open(
        cls, folder: Path | str, model: str | Path | None = None, query_prompt: str | None = None
    ) -> SearchIndex:
        """Open an index.

        Args:
            folder: where it is.
            model: where its model is now; default: where it was.
            query_prompt: put before queries, as for `load_encoder`; default: what the index keeps.

        Raises:
            UserError: it is no index, it is damaged, `model` cannot be loaded or is another than
                that of the index, or lancedb is not installed.
        """
        folder = expanded(folder)
        about = About.read(folder)
        compression = Compression(FULL, about.dim)
        if about.compress != FULL:
            compression = read_compression(folder / FILE)
        database = Database(folder, about.columns, compression, new=False)
        encoder = None if model is None else load_model(folder, about, str(model), query_prompt)
        return cls(folder, about, database, encoder, query_prompt)

    def __len__(self) -> int:
        return self._database.count()

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        """The columns of metadata with their types."""
        return self.about.columns

    @property
    def encoder(self) -> Encoder:
        """The model that made the vectors.

        Raises:
            UserError: it cannot be loaded, or is not the one that made them.
        """
        if self._encoder is None:
            self._encoder = load_model(self.folder, self.about, None, self._query_prompt)
        return self._encoder

    def add(
        self,
        texts: str | Iterable[str],
        ids: str | Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, Any]] | None = None,
        advance: Callable[[int], None] = lambda rows: None,
    ) -> Changes:
        """Add rows; an id that is there already gets its new text and metadata.

        What has not changed is not encoded again. Slice by slice is written whole or not at all, so
        after a kill the same call, with the same ids, does what is missing. Call `refresh` at last.

        Args:
            texts: one text, or n; a row whose text is empty is deleted, or left out.
            ids: as many, of equal ones the last counts; default: running numbers, "#1" and on.
            metadata: n mappings from columns to values; a missing value is none.
            advance: called with numbers of rows that are done.

        Raises:
            UserError: other numbers of texts, ids and metadata, no such column, a value that its
                column cannot hold, another model, or a disk that cannot be written.
        """
        # By place: a column of pandas would give what has the place as its label.
        texts = [texts] if isinstance(texts, str) else list(texts)
        if ids is None:
            ids = self._numbers(len(texts))
        ids = [ids] if isinstance(ids, str) else list(ids)
        metadata = [{}] * len(texts) if metadata is None else list(metadata)
        if not len(texts) == len(ids) == len(metadata):
            raise UserError(
                f"{len(texts)} texts, {len(ids)} ids, {len(metadata)} mappings of metadata: give "
                "equally many of each"
            )
        require_strings("text", texts)
        require_strings("id", ids)
        ids = list(map(without_surrogates, ids))
        last_rows = sorted({key: row for row, key in enumerate(ids)}.values())
        repeated = len(texts) - len(last_rows)
        advance(repeated)
        slices = (
            [Row(texts[row], ids[row], metadata[row]) for row in last_rows[start : start + SLICE]]
            for start in range(0, len(last_rows), SLICE)
        )
        return Changes(repeated=repeated) + self.add_slices(slices, advance)

    def add_slices(
        self,
        slices: Iterable[Sequence[Row]],
        advance: Callable[[int], None] = lambda rows: None,
        on_cluster: int = 0,
    ) -> Changes:
        """Add slices of rows, each of which is encoded together and written whole or not at all.

        Args:
            slices: of rows, with no id twice in all of them.
            advance: called with numbers of rows that are done.
            on_cluster: so many workers there encode, a slice each at a time; 0: this process does.

        Raises:
            UserError: as for `add`; or an id is that of a row and that of a passage of another.
            Stopped: workers of the cluster died again and again over one slice.
        """
        to_write, ahead = tee(self._unencoded(rows, advance) for rows in slices)
        texts = ([text for text, *_ in rows.values()] for rows, _ in ahead if rows)
        vectors = self._encoded(texts, on_cluster, advance)
        changes = Changes()
        for rows, change in to_write:
            if rows:
                self._database.write(rows, next(vectors))
            changes += change
        return changes

    def _unencoded(
        self, rows: Sequence[Row], advance: Callable[[int], None]
    ) -> tuple[dict[str, tuple[Any, ...]], Changes]:
        to_encode, changes = put_unencoded(self._database, self.columns, rows)
        advance(
            changes.added + changes.replaced + changes.unchanged + changes.empty - len(to_encode)
        )
        return to_encode, changes

    def _encoded(
        self, texts: Iterator[list[str]], on_cluster: int, advance: Callable[[int], None]
    ) -> Iterator[np.ndarray]:
        """Give the vectors (n, dim) of each slice of texts, in order."""
        if not on_cluster:
            yield from (self._vectors(some, "document", advance) for some in texts)
            return
        begin = partial(_document_encoder, self.folder, self.about, self.encoder.source)
        for vectors in map_on_cluster(begin, texts, on_cluster, in_order=True):
            advance(len(vectors))
            yield self._checked(vectors)

    def delete(self, where: str) -> int:
        """Delete the rows that match a filter; how many there were.

        Args:
            where: an SQL condition on id, text and metadata, such as "id IN ('a', 'b')".

        Raises:
            UserError: the filter makes no sense.
        """
        return self._database.delete(without_surrogates(where))

    def delete_numbered(self, source: str, keep: Callable[[str], bool]) -> int:
        """Delete rows whose ids are the name of a source, a colon and a number; how many.

        Their passages are deleted too. Rows that the source still has, by `keep` of the id, stay.
        """
        begin = len(source) + 1
        numbered = self._database.numbered(source)
        return self._remove(
            key for key, row in numbered if row[begin:].isdecimal() and not keep(row)
        )

    def delete_other_passages(self, rows: Mapping[str, int]) -> int:
        """Delete what was a passage of rows that are cut otherwise now; how many.

        Args:
            rows: id -> how many passages the row has; 1 where it is not cut.
        """
        wanted = {
            passage_id(row, passage, passages)
            for row, passages in rows.items()
            for passage in range(1, passages + 1)
        }
        known = self._database.of_rows(list(rows))
        return self._remove(key for key, row in known if row in rows and key not in wanted)

    def _remove(self, ids: Iterable[str]) -> int:
        """Delete rows by their ids; how many."""
        stale = list(ids)
        for start in range(0, len(stale), SLICE):
            self._database.remove(stale[start : start + SLICE])
        return len(stale)

    def gone(self) -> dict[str, int]:
        """Return the files that are not there any more -> how many rows the index has of each.

        Files are looked for where they were; rows that were not read from a file belong to none.
        """
        root = self.folder / self.about.root
        files = sorted(self._database.files().items())
        return {file: rows for file, rows in files if not (root / file).exists()}

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete the rows of files, which are named as `gone` names them."""
        for start in range(0, len(files), SLICE):
            self._database.remove_files(files[start : start + SLICE])

    def approximate(self, rows: int) -> ApproximateIndex | None:
        """Return the approximate index; `None` if so few rows are searched without it."""
        return self.about.approximate if rows > self._exact_rows else None

    @property
    def _exact_rows(self) -> float:
        """Number of rows up to which there is no approximate index; of other than floats none."""
        return EXACT_ROWS if self._database.compression.form.floats else math.inf

    def refresh(self) -> None:
        """Bring the indices of words and vectors up to date, and measure recall.

        Rows that were added since are found without it too, but are compared one by one.

        Raises:
            UserError: the disk cannot be written.
        """
        rows = len(self)
        if rows:
            self._database.index_words()
        if rows <= self._exact_rows:
            return
        about = About.read(self.folder)
        trained = about.approximate.rows if about.approximate else 0
        if rows > 2 * trained:
            self._database.index_vectors()
            trained = rows
        measured = ApproximateIndex(trained, *measure_recall(self._database, rows))
        # Read again: others may have added to the index meanwhile.
        self._keep(replace(About.read(self.folder), approximate=measured))

    def search(
        self,
        queries: str | Sequence[str],
        k: int = 10,
        where: str | None = None,
        exact: bool = False,
        hybrid: bool = False,
        bm25_weight: float | None = None,
    ) -> SearchResults:
        """Return the texts nearest to each query, by cosine.

        Up to `EXACT_ROWS` rows (that match the filter) are compared one by one, more of them by the
        approximate index.

        Args:
            queries: one text, or several.
            k: hits for each, fewer where there are fewer rows.
            where: only rows that match this SQL condition, such as "year > 2000".
            exact: compare every row, however many there are.
            hybrid: rank the 100 nearest by cosine and the 100 best by shared words (BM25) by both
                together, as `fusion.fuse` does.
            bm25_weight: of BM25 there; default: the index's own, or else `fusion.WEIGHT`.

        Raises:
            UserError: an empty query, k below 1 or no whole number, a weight below 0 or of a search
                that is not hybrid, a filter that makes no sense, an index without texts, or one of
                another model.
        """
        queries = [queries] if isinstance(queries, str) else list(queries)
        require_strings("query", queries)
        queries = list(map(normalise, queries))
        if not queries or not all(query.strip() for query in queries):
            raise UserError(f"queries {queries}: give one or more, none of them empty")
        require_k(k)
        if bm25_weight is not None and not hybrid:
            raise UserError(
                "`bm25_weight` only affects `hybrid` searches. Set `hybrid`, or leave it out"
            )
        own = self.about.bm25_weight
        weight = bm25_weight if bm25_weight is not None else WEIGHT if own is None else own
        require_weight(weight)
        where = None if where is None else without_surrogates(where)
        rows = self._database.count(where)
        if not rows and not len(self):
            raise UserError(
                f"{self.folder}: the index has no texts. Add some with isospace index FILE..."
            )
        k = min(k, max(rows, 1))
        measured = None if exact else self.approximate(rows)

        sample = self._database.sample(len(self), SPREAD_SAMPLE)[1] if hybrid else None

        def find(query: str, vector: np.ndarray) -> list[Hit]:
            approximate = measured is not None
            if sample is None:
                return self._database.nearest(vector, k, where, approximate)
            return nearest_by_both(
                self._database, query, vector, k, where, approximate, weight, sample
            )

        vectors = self._database.compression.queries(self._vectors(queries, "query"))
        hits = list(map(find, queries, vectors))
        by = f"cosine and words (BM25, weight {weight:g}), hybrid" if hybrid else "cosine"
        if self.about.compress != FULL:
            by += f" of {self.about.compress} vectors"
        among = number_of(rows, "texts") + ("" if where is None else f" where {where}")
        return SearchResults(hits, f"{by}, {measured.text if measured else 'exact'}, {among}")

    def _numbers(self, count: int) -> list[str]:
        """Reserve ids before they are used: a kill leaves a gap, and never a second #1."""
        about = About.read(self.folder)  # others may have taken some since it was opened
        self._keep(replace(about, numbered=about.numbered + count))
        return [f"#{about.numbered + number}" for number in range(1, count + 1)]

    def _keep(self, about: About) -> None:
        about.write(self.folder)
        self.about = about

    def _vectors(
        self, texts: Sequence[str], side: Side, advance: Callable[[int], None] | None = None
    ) -> np.ndarray:
        with self._encoding:
            vectors = self.encoder.embed(texts, on_batch=advance, side=side)
        return self._checked(vectors)

    def _checked(self, vectors: np.ndarray) -> np.ndarray:
        """Scale vectors (n, dim) to length 1; refuse NaN."""
        if not np.isfinite(vectors).all():
            raise UserError(
                f"{self.about.model}: some of its vectors are not finite. The model is damaged"
            )
        return unit_rows(vectors)


def _document_encoder(folder: Path, about: About, model: str) -> Callable[[list[str]], np.ndarray]:
    """Return what a worker on a cluster does with the texts of a slice."""
    encoder = load_model(folder, about, model)
    return partial(encoder.embed, side="document")
