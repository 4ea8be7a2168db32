"""A model for Python users: encode, compare, search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.pooling import PoolingName
from isospace.encoders.precision import Precision
from isospace.operators.nearest import unit_rows
from isospace.search.memory_index import MemoryIndex
from isospace.vectors.records import open_records

TextsOrVectors: TypeAlias = str | Sequence[str] | np.ndarray


class Embedder:
    """Sentences to vectors; what `isospace.load` gives.

    A single text in place of a list gives a result without that axis, as a scalar or one vector.

    Args:
        encoder: the model.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self.encoder.dim

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        normalize: bool = False,
        max_length: int | None = None,
        precision: Precision = "float32",
    ) -> np.ndarray:
        """Vectors of texts, as the model makes them.

        Args:
            texts: one text, or n.
            normalize: scale to length 1 (many models do that themselves).
            max_length: truncation in tokens; default: the model's own limit.
            precision: bf16 is faster where the processor has it.

        Returns:
            (n, dim) float32, or (dim,) for one text.
        """
        several = [texts] if isinstance(texts, str) else list(texts)
        vectors = self.encoder.embed(several, max_length=max_length, precision=precision)
        if normalize:
            vectors = unit_rows(vectors)
        return vectors[0] if isinstance(texts, str) else vectors

    def similarity(self, a: TextsOrVectors, b: TextsOrVectors) -> np.ndarray:
        """Cosines of all texts of one side with all of the other.

        Args:
            a: one text, n texts, or their (n, dim) vectors.
            b: one text, m texts, or their vectors.

        Returns:
            (n, m) float32, without the axis of a side that is one text or one vector.
        """
        cosines: np.ndarray = self._unit_vectors(a) @ self._unit_vectors(b).T
        return cosines

    def index(self, corpus: Path | str | Iterable[str], column: str = "text") -> MemoryIndex:
        """Make texts searchable, exactly and in memory.

        Args:
            corpus: the texts; or one file of them, as a path.
            column: of a file that has columns.

        Raises:
            UserError: the file cannot be read.
        """
        if isinstance(corpus, str | Path):
            with open_records([str(corpus)], column, None, "utf-8") as records:
                corpus = [text for text, _ in records]
        texts = list(corpus)
        return MemoryIndex(texts, unit_rows(self.encoder.embed(texts)), self._unit_vectors)

    def _unit_vectors(self, given: TextsOrVectors) -> np.ndarray:
        vectors: Any = given if isinstance(given, np.ndarray) else self.encode(given)
        units = unit_rows(np.atleast_2d(vectors))
        return units.reshape(vectors.shape)


def load(
    model: str | Path = "minilm", pooling: PoolingName | None = None, device: str | None = None
) -> Embedder:
    """Load a model; `isospace.load` is this.

    Args:
        model: minilm, a model folder, a run's folder, or a Hub name.
        pooling: default: the model's own.
        device: default: a GPU if there is one.

    Raises:
        UserError: nothing there can be loaded.
    """
    return Embedder(load_encoder(str(model), pooling, device))
