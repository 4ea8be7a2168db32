"""An index on disk: texts with vectors and metadata, and its settings."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from isospace.encoders.encoder import Encoder
from isospace.encoders.frozen import FrozenEncoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.encoders.places import folder_of
from isospace.encoders.settings import EncoderSettings, Side
from isospace.encoders.words import PREFIX, word_file
from isospace.errors import UserError, number_of
from isospace.evaluation.hybrid import require_weight
from isospace.operators.forms import FULL, FormName, has_floats
from isospace.operators.fusion import WEIGHT
from isospace.operators.nearest import unit_rows
from isospace.search.about import About, ApproximateIndex
from isospace.search.columns import ColumnType, check_names, fit
from isospace.search.database import (
    SPREAD_SAMPLE,
    Changes,
    Database,
    Hit,
    Row,
    Slice,
    in_slices,
    lancedb,
)
from isospace.search.embedder import require_k
from isospace.system.cluster import map_on_cluster
from isospace.system.consent import current_consent
from isospace.system.endpoints import is_address
from isospace.system.files import atomic_folder, expanded, require_new
from isospace.system.unicode import normalise, require_strings, without_surrogates


def _lasting_name(encoder: Encoder) -> str:
    """Return the name of an encoder's model, which is valid in any working directory."""
    place, words = folder_of(encoder.source), word_file(encoder.source)
    if words is not None:
        return f"{PREFIX}{words.resolve()}"
    if place is not None:
        return str(place.resolve())
    return encoder.given.name if isinstance(encoder, FrozenEncoder) else encoder.source


def load_model(
    folder: Path, about: About, model: str | None, query_prompt: str | None = None
) -> Encoder:
    """Load the model of an index, from a new location if given; refuse another model."""
    name = model or about.model
    if model is None and is_address(name):
        current_consent().require_named(name, str(folder))
    settings = EncoderSettings(
        pooling=about.pooling,
        query_prompt=about.query_prompt if query_prompt is None else query_prompt,
        document_prompt=about.document_prompt,
    )
    try:
        encoder = load_encoder(name, settings)
    except UserError as error:
        if model is not None:
            raise
        raise UserError(
            f"{error}. The index {folder} needs this model; if the model was moved, name its "
            "folder with `model`"
        ) from error
    if encoder.dim != about.dim:
        difference = f"{encoder.dim} dimensions, not {about.dim}"
    elif weights_hash(encoder, "document") != about.weights:
        difference = "other weights or settings, another tokenizer or another pooling"
    else:
        return encoder
    raise UserError(
        f"{folder}: was made with another model ({about.model}); {name} has {difference}. Name the "
        "right one with `model`, or index the texts anew into another folder"
    )


EXACT_ROWS = 20_000
"""Largest number of rows that are searched exactly, row by row."""


@dataclass(frozen=True)
class SearchResults:
    """The hits of each query, best first, and a description of the search."""

    hits: list[list[Hit]]
    protocol: str


class SearchIndex:
    """An index for semantic search, with filters on metadata.

    Use `SearchIndex.create` or `SearchIndex.open`. Several processes may search at the same time,
    also while one process adds texts.

    Examples:
        >>> index = SearchIndex.create("notes", columns={"year": "int"})  # doctest: +SKIP
        >>> index.add(["A cat sleeps."], ["a"], [{"year": 2001}])  # doctest: +SKIP
        Changes(added=1, replaced=0, unchanged=0, empty=0, deleted=0)
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
        self.folder, self.about, self.database = folder, about, database
        self._encoder = encoder  # `None`: loaded on first use
        self._query_prompt = query_prompt
        self._encoding = Lock()  # tokenizers are not thread-safe

    @classmethod
    def create(
        cls,
        folder: Path | str,
        model: str | Path = "minilm",
        columns: Mapping[str, ColumnType] | None = None,
        settings: EncoderSettings = EncoderSettings(),  # noqa: B008 - frozen
        bm25_weight: float | None = None,
        compress: FormName = FULL,
    ) -> SearchIndex:
        """Create an empty index in a new or empty folder.

        The model is minilm, a model folder, a run's folder or a Hub name. The index keeps pooling
        and prompts (`settings`), and the default `bm25_weight` of hybrid searches. `compress` is
        the form of its vectors.

        Raises:
            UserError: the folder is not empty, the model cannot be loaded, a column has an invalid
                name, the weight is below 0, or lancedb is not installed.
        """
        lancedb()
        folder, columns = expanded(folder), dict(columns or {})
        check_names(columns)
        if bm25_weight is not None:
            require_weight(bm25_weight)
        require_new(folder, "to")
        encoder = load_encoder(str(model), settings)
        about = About(
            _lasting_name(encoder),
            weights_hash(encoder, "document"),
            encoder.dim,
            columns,
            os.path.relpath(Path.cwd(), folder.resolve()),
            encoder.prompts.query,
            encoder.prompts.document,
            bm25_weight=bm25_weight,
            pooling=settings.pooling,
            compress=compress,
        )
        with atomic_folder(folder) as building:
            Database(building, columns, about.dim, compress)
            about.write(building)
        return cls(folder, about, Database(folder, columns, about.dim, compress), encoder)

    @classmethod
    def open(
        cls, folder: Path | str, model: str | Path | None = None, query_prompt: str | None = None
    ) -> SearchIndex:
        """Open an index.

        `model` is a model with the same document vectors, such as one of `--queries-only`, or the
        index's own after a move. Default: the index's own, and its query prompt.

        Raises:
            UserError: the folder is not an index, `model` cannot be loaded or has other document
                vectors, or lancedb is not installed.
        """
        folder = expanded(folder)
        about = About.read(folder)
        database = Database(folder, about.columns, about.dim, about.compress)
        encoder = None if model is None else load_model(folder, about, str(model), query_prompt)
        return cls(folder, about, database, encoder, query_prompt)

    def __len__(self) -> int:
        return self.database.count()

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        """The metadata columns with their types."""
        return self.about.columns

    @property
    def encoder(self) -> Encoder:
        """The model that encoded the texts; refused if it has changed since."""
        if self._encoder is None:
            self._encoder = load_model(self.folder, self.about, None, self._query_prompt)
        return self._encoder

    def add(
        self,
        texts: str | Iterable[str],
        ids: str | Iterable[str],
        metadata: Iterable[Mapping[str, Any]] | None = None,
        advance: Callable[[int], None] = lambda rows: None,
    ) -> Changes:
        """Add rows; a row with a known id replaces the old row, and an empty text deletes it.

        Unchanged rows are not encoded again. Of rows with the same id, the last counts. After a
        kill, the same call resumes. `metadata` are mappings from columns to values. `advance` is
        called with the number of rows done. Call `refresh` after the last `add`.

        Raises:
            UserError: texts, ids and metadata differ in number; a column does not exist or cannot
                hold a value; the model has changed; or the disk cannot be written.
        """
        # Lists, since a pandas column would be indexed by its labels and not by position.
        texts = [texts] if isinstance(texts, str) else list(texts)
        ids = [ids] if isinstance(ids, str) else list(ids)
        metadata = [{}] * len(texts) if metadata is None else list(metadata)
        if not len(texts) == len(ids) == len(metadata):
            counts = f"{len(texts)} texts, {len(ids)} ids, {len(metadata)} mappings of metadata"
            raise UserError(f"{counts}: give equally many of each")
        require_strings("text", texts)
        require_strings("id", ids)
        ids = list(map(without_surrogates, ids))
        values = [  # all are checked before the first is written
            fit(self.columns, one, f"row {key}") for key, one in zip(ids, metadata, strict=True)
        ]
        return self.add_rows(map(Row, texts, ids, values), advance)

    def add_rows(
        self,
        rows: Iterable[Row],
        advance: Callable[[int], None] = lambda rows: None,
        on_cluster: int = 0,
    ) -> Changes:
        """Add rows as `add` does; the passages of a row come together.

        Each of `on_cluster` workers of a cluster encodes a slice at a time; 0: encode here.

        Raises:
            UserError: as for `add`.
            Stopped: cluster workers died repeatedly on one slice.
        """
        ahead: deque[Slice] = deque()  # a cluster reads slices before earlier ones are written

        def texts() -> Iterator[list[str]]:
            for some in in_slices(rows):
                ahead.append(self.database.compare(some, ahead))
                advance(len(some) - len(ahead[-1].changed))
                yield [text for text, *_ in ahead[-1].changed.values()]

        changes = Changes()
        for vectors in self._encoded(texts(), on_cluster, advance):
            self.database.write(ahead[0], vectors)
            changes += ahead.popleft().changes
        return changes

    def _encoded(
        self, texts: Iterator[list[str]], on_cluster: int, advance: Callable[[int], None]
    ) -> Iterator[np.ndarray]:
        """Yield the vectors (n, dim) of each slice of texts, in order."""
        if not on_cluster:
            yield from (self._vectors(some, "document", advance) for some in texts)
            return
        begin = partial(_document_encoder, self.folder, self.about, self.encoder.source)
        for vectors in map_on_cluster(begin, texts, on_cluster, in_order=True):
            advance(len(vectors))
            yield self._checked(vectors)

    def delete(self, where: str) -> int:
        """Delete the rows that match an SQL condition; return their number."""
        return self.database.delete(where)

    def approximate(self, rows: int) -> ApproximateIndex | None:
        """Return the approximate index; `None` if `rows` rows are searched exactly."""
        return None if self._is_exact(rows) else self.about.approximate

    def _is_exact(self, rows: int) -> bool:
        return rows <= EXACT_ROWS or not has_floats(self.about.compress)

    def refresh(self) -> None:
        """Update the word index and the approximate index, and measure recall.

        Without `refresh`, new rows are found too, but by a slower exact comparison.
        """
        rows = len(self)
        if rows:
            self.database.index_words()
        if self._is_exact(rows):
            return
        trained = self.about.approximate.rows if self.about.approximate else 0
        if rows > 2 * trained:
            self.database.index_vectors()
            trained = rows
        measured = ApproximateIndex(trained, *self.database.measure_recall(rows))
        self.about = replace(self.about, approximate=measured)
        self.about.write(self.folder)

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

        If at most `EXACT_ROWS` rows match the filter, the search is exact. Otherwise it uses the
        approximate index.

        Args:
            queries: one or several texts.
            k: hits per query; fewer if the index has fewer rows.
            where: search only rows that match this SQL condition, such as "year > 2000".
            exact: compare every row, for any number of rows.
            hybrid: fuse the 100 nearest rows by cosine with the 100 best by BM25 (`fusion.fuse`).
            bm25_weight: weight of BM25 in hybrid search; default: the index's weight, or else
                `fusion.WEIGHT`.

        Raises:
            UserError: an argument is invalid, the index is empty, or the model has changed.
        """
        queries = [queries] if isinstance(queries, str) else list(queries)
        require_strings("query", queries)
        queries = [without_surrogates(normalise(query)) for query in queries]
        if not queries:
            raise UserError("no query. Give one or more texts to search for")
        if not all(query.strip() for query in queries):
            raise UserError(f"queries {queries}: one is empty. Leave it out")
        require_k(k)
        if bm25_weight is not None and not hybrid:
            raise UserError("`bm25_weight` needs `hybrid`. Set `hybrid`, or leave it out")
        own = self.about.bm25_weight
        weight = bm25_weight if bm25_weight is not None else WEIGHT if own is None else own
        require_weight(weight)
        rows = self.database.count(where)
        if not rows and not len(self):
            raise UserError(f"{self.folder}: the index has no texts. Add some first")
        k = min(k, max(rows, 1))
        measured = None if exact else self.approximate(rows)
        approximate = measured is not None
        vectors = self._vectors(queries, "query")
        if hybrid:
            sample = self.database.sample(len(self), SPREAD_SAMPLE)[1]
            hits = [
                self.database.nearest_by_both(query, vector, k, where, approximate, weight, sample)
                for query, vector in zip(queries, vectors, strict=True)
            ]
        else:
            nearest = (self.database.nearest(vector, k, where, approximate) for vector in vectors)
            hits = [list(found.values()) for found in nearest]
        by = f"cosine and words (BM25, weight {weight:g}), hybrid" if hybrid else "cosine"
        if self.about.compress != FULL:
            by += f" of {self.about.compress} vectors"
        among = number_of(rows, "texts") + ("" if where is None else f" where {where}")
        return SearchResults(hits, f"{by}, {measured.text if measured else 'exact'}, {among}")

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
    """Return the function by which a cluster worker encodes a slice of texts."""
    encoder = load_model(folder, about, model)
    return partial(encoder.embed, side="document")
