"""Teachers, which score texts for an encoder to follow: encoders, BM25, cross-encoders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder
from transformers import AutoConfig

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import state_hash, weights_hash
from isospace.encoders.places import loading, resolve
from isospace.encoders.settings import Side
from isospace.errors import UserError
from isospace.evaluation.bm25 import BM25
from isospace.evaluation.pairs import fingerprint
from isospace.operators.fusion import fuse
from isospace.operators.nearest import unit_rows
from isospace.system.endpoints import is_address
from isospace.system.files import built_once, row_writer
from isospace.system.progress import Progress
from isospace.training.examples import Rows

ScoreMatrix = NDArray[np.float32]
Doubles = NDArray[np.float64]

_SLICE = 1 << 12
"""Number of texts whose vectors are in memory at once."""
_HELD = 1 << 26
"""Number of BM25 scores to remember for the queries of a batch: 256 MB."""


class LinesBySide(NamedTuple):
    """The lines of a run, divided into queries and texts (documents), both ascending.

    `side` is that of the queries, for their prompt, and `digest` identifies all texts.
    """

    queries: Rows
    texts: Rows
    side: Side
    read: Callable[[int], str]
    digest: str


class Teacher(ABC):
    """A model that scores texts for queries, both given as lines. Higher is better.

    `digest` identifies the scores. If `ranks_all`, every text has a score for every query.
    """

    ranks_all = True
    digest: str

    @abstractmethod
    def scores(self, queries: Rows, texts: Rows) -> ScoreMatrix:
        """Return the scores (query, n) of texts; NaN without a score.

        `texts` (n,) are scored for every query; of `texts` (query, n) each query has its own.
        """


class LineVectors:
    """Unit vectors (n, dim) of n lines, ascending, in a file of float16.

    They stay on disk, because a teacher encodes a whole corpus.
    """

    def __init__(self, lines: Rows, vectors: NDArray[np.float16]) -> None:
        self.lines, self.vectors = lines, vectors

    @classmethod
    def made(
        cls,
        encoder: Encoder,
        side: Side,
        lines: Rows,
        sides: LinesBySide,
        cache: Path,
        progress: Progress,
    ) -> LineVectors:
        """Encode the lines, or read their vectors from `cache / "teachers"`."""
        about = (*fingerprint(encoder, side), sides.digest)
        name = blake2b("\0".join(about).encode() + lines.tobytes(), digest_size=16).hexdigest()

        def build(folder: Path) -> None:
            shape = (len(lines), encoder.dim)
            with (
                row_writer(folder / "vectors.npy", np.float16, shape) as write,
                progress.bar("teacher", len(lines)) as advance,
            ):
                for start in range(0, len(lines), _SLICE):
                    texts = [sides.read(line) for line in lines[start : start + _SLICE].tolist()]
                    write(unit_rows(encoder.embed(texts, side=side)))
                    advance(len(texts))

        def read(folder: Path) -> LineVectors:
            return cls(lines, np.load(folder / "vectors.npy", mmap_mode="r"))

        return built_once(cache / "teachers" / name, build, read)

    def __getitem__(self, lines: Rows) -> Doubles:
        # In float32, products would depend on the batch size, and so on the number of processes.
        return self.vectors[np.searchsorted(self.lines, lines)].astype(np.float64)


class Cosines(Teacher):
    """The cosines of an encoder."""

    def __init__(self, queries: LineVectors, texts: LineVectors, digest: str) -> None:
        self.queries, self.texts, self.digest = queries, texts, digest

    @classmethod
    def made(cls, encoder: Encoder, sides: LinesBySide, cache: Path, progress: Progress) -> Cosines:
        """Encode the lines of a run; each text is encoded once."""
        digest = weights_hash(encoder, sides.side, "document") + sides.digest
        if encoder.prompts.for_side(sides.side) == encoder.prompts.for_side("document"):
            lines = np.union1d(sides.queries, sides.texts)
            both = LineVectors.made(encoder, "document", lines, sides, cache, progress)
            return cls(both, both, digest)
        queries = LineVectors.made(encoder, sides.side, sides.queries, sides, cache, progress)
        texts = LineVectors.made(encoder, "document", sides.texts, sides, cache, progress)
        return cls(queries, texts, digest)

    def scores(self, queries: Rows, texts: Rows) -> ScoreMatrix:
        """Multiply vectors, a slice of the texts at a time."""
        looking = self.queries[queries]
        if texts.ndim == 2:
            own = self.texts[texts.ravel()].reshape(*texts.shape, -1)
            return np.einsum("qd,qnd->qn", looking, own).astype(np.float32)
        scores = np.empty((len(queries), len(texts)), np.float32)
        for start in range(0, len(texts), _SLICE):
            part = slice(start, start + _SLICE)
            scores[:, part] = looking @ self.texts[texts[part]].T
        return scores


class Fused(Teacher):
    """Hybrid scores: an encoder's cosines and BM25 (`operators.fusion`).

    The formula needs the standard deviation of the query's cosines over all documents, here from
    the covariance of the vectors, and the highest BM25 score.
    """

    def __init__(self, cosines: Cosines, sides: LinesBySide, weight: float) -> None:
        self._cosines, self._sides, self.weight = cosines, sides, weight
        self._bm25 = BM25([sides.read(line) for line in sides.texts.tolist()])
        self._held: dict[int, ScoreMatrix] = {}
        self.digest = f"{cosines.digest} BM25 {weight!r}"
        dim = cosines.texts.vectors.shape[1]
        total, squares = np.zeros(dim), np.zeros((dim, dim))
        for start in range(0, len(sides.texts), _SLICE):
            part = cosines.texts[sides.texts[start : start + _SLICE]]
            total += part.sum(0)
            squares += part.T @ part
        mean = total / len(sides.texts)
        self._covariance = squares / len(sides.texts) - np.outer(mean, mean)

    def scores(self, queries: Rows, texts: Rows) -> ScoreMatrix:
        """Return hybrid scores."""
        cosines = self._cosines.scores(queries, texts)
        places = np.broadcast_to(np.searchsorted(self._sides.texts, texts), cosines.shape)
        words = np.empty((len(queries), 1 + places.shape[1]), np.float32)
        for row, (query, own) in enumerate(zip(queries.tolist(), places, strict=True)):
            of_query = self._words(query)
            words[row, 0], words[row, 1:] = of_query.max(), of_query[own]
        looking = self._cosines.queries[queries]
        variance = (looking @ self._covariance * looking).sum(1)
        spread = np.sqrt(np.maximum(variance, 0.0))
        # The first column is the text with the query's highest BM25 score, which `texts` may lack.
        with_best = np.concatenate([np.zeros((len(queries), 1), np.float32), cosines], axis=1)
        return fuse(with_best, words, self.weight, spread)[:, 1:].astype(np.float32)

    def _words(self, query: int) -> ScoreMatrix:
        """Return the BM25 scores (text,) of all documents, and remember them."""
        if query not in self._held:
            if len(self._held) * len(self._sides.texts) > _HELD:
                self._held.clear()
            self._held[query] = self._bm25.scores([self._sides.read(query)])[0]
        return self._held[query]


def is_cross_encoder(name: str) -> bool:
    """Return true if a folder or Hub model is a cross-encoder (a sequence classifier)."""
    place = resolve(name)
    if Path(place.path).is_file() or is_address(place.path):  # no transformer
        return False
    with suppress(OSError, ValueError):  # no config that transformers reads
        config = AutoConfig.from_pretrained(place.path, **place.options)
        return any(
            kind.endswith("ForSequenceClassification") for kind in config.architectures or ()
        )
    return False


class CrossEncoderTeacher(Teacher):
    """A cross-encoder. It reads each pair, so it scores only the texts that are a query's own."""

    ranks_all = False

    def __init__(self, name: str, device: str, read: Callable[[int], str]) -> None:
        place = resolve(name)
        with loading(f"{name}: {place.path} cannot be loaded"):
            self._model = CrossEncoder(place.path, device=device, **place.options)
        if self._model.config.num_labels != 1:
            count = self._model.config.num_labels
            raise UserError(f"{name}: returns {count} scores for a pair of texts, expected one")
        self._read, self.digest = read, state_hash(self._model)

    def scores(self, queries: Rows, texts: Rows) -> ScoreMatrix:
        """Return the logits of each query's own texts; a whole batch would take too long."""
        if texts.ndim == 1:
            return np.full((len(queries), len(texts)), np.nan, np.float32)
        pairs = [
            (self._read(query), self._read(text))
            for query, own in zip(queries.tolist(), texts.tolist(), strict=True)
            for text in own
        ]
        scores = self._model.predict(
            pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False
        )
        return scores.astype(np.float32).reshape(texts.shape)
