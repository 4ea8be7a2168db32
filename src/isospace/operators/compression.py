"""Compressed vectors: fewer dimensions, smaller numbers, and their comparison with queries.

A compression is fitted once on vectors of a corpus: principal components, and the range of each
dimension. Vectors are scaled to length 1 before and after the projection to components. Numbers
have the format of sentence-transformers' `quantize_embeddings`:

    int8    floor((x - low) / step) - 128, clipped to -128..127, with step = (high - low) / 255 and
            the range low..high of each dimension; comparisons use the middle of each step
    binary  bit i is 1 if x_i > 0, eight to a byte, first dimension highest ("ubinary"); comparisons
            use +1 and -1 for 1 and 0, divided by sqrt dim

Queries stay in full precision, which costs nothing, unless a form compares bits with bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.operators.fitted_whitening import Moments, Whitening, WhiteningMap
from isospace.operators.forms import FORMS, RESCORED, Form, FormName, require_fit
from isospace.operators.nearest import highest, product_blocks, unit_rows

_BELOW = 4.0
"""Subtracted from the scores of passages that are not rescored, so that they rank below the
others. Cosines differ by 2 at most."""


@dataclass(frozen=True, eq=False)
class Compression:
    """A fitted form of compression, the same for every passage and query.

    Attributes:
        name: name of the form in `FORMS`.
        width: number of dimensions of the vectors before compression.
        components: map to the principal components; `None` if the form keeps all dimensions.
        ranges: (2, dim) float32, lowest and highest number of each dimension; `None` if the form is
            not int8.
    """

    name: FormName
    width: int
    components: WhiteningMap | None = None
    ranges: NDArray[np.float32] | None = None

    @classmethod
    def fit(cls, name: FormName, vectors: NDArray[Any]) -> Compression:
        """Fit a form on vectors (n, width) of a corpus.

        Raises:
            ValueError: the form needs more vectors, or vectors of more dimensions.
        """
        form, width = FORMS[name], vectors.shape[1]
        require_fit(name, width, len(vectors))
        fitted = cls(name, width)
        if form.dim is not None:
            moments = Moments.from_vectors(torch.from_numpy(unit_rows(vectors)))
            whitening = Whitening(dim=form.dim, shrinkage=0.0)
            fitted = replace(fitted, components=whitening.fit(moments, power=0.0))
        if form.numbers == "int8":
            kept = fitted.floats(vectors)
            fitted = replace(fitted, ranges=np.stack([kept.min(axis=0), kept.max(axis=0)]))
        return fitted

    @property
    def form(self) -> Form:
        """The form of this compression."""
        return FORMS[self.name]

    @property
    def dim(self) -> int:
        """Number of stored dimensions."""
        return self.form.dim or self.width

    def floats(self, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """Project vectors (n, width) to the kept dimensions: (n, dim) float32 of length 1."""
        unit = unit_rows(vectors)
        if self.components is None:
            return unit
        return unit_rows(self.components(torch.from_numpy(unit).double()).numpy())

    def queries(self, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """Convert queries (n, width) to vectors (n, dim) of length 1 for comparison.

        Scores are their inner products with `restored` passages. A rescored form uses these scores
        only for the passages that the bits have found.
        """
        kept = self.floats(vectors)
        return _signs(kept) if self.form.bits and not self.form.rescored else kept

    def numbers(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Return the stored numbers of passages (n, width): (n, dim), or (n, dim / 8) if binary."""
        kept, form = self.floats(vectors), self.form
        if form.numbers == "binary":
            return np.packbits(kept > 0, axis=1)
        if form.numbers == "int8":
            low, step = self._steps
            kept, number = np.clip(np.floor((kept - low) / step), 0, 255) - 128, "int8"
        else:
            number = form.numbers
        stored: NDArray[Any] = kept.astype(number)
        return stored

    def bits(self, vectors: NDArray[Any]) -> NDArray[np.uint8]:
        """Return the bits (n, dim / 8) of passages or queries (n, width)."""
        return np.packbits(self.floats(vectors) > 0, axis=1)

    def score_blocks(
        self, queries: NDArray[Any], passages: NDArray[Any]
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Compress passages (m, width), and yield their scores for queries (n, width) in blocks.

        Yields:
            The row of the first query of a block, and the scores (queries of the block, m).
        """
        blocks = product_blocks(self.queries(queries), self.restored(self.numbers(passages)))
        if not self.form.rescored:
            yield from blocks
            return
        signs = (_signs(self.floats(side)) for side in (queries, passages))
        for (start, by_bits), (_, by_numbers) in zip(product_blocks(*signs), blocks, strict=True):
            yield start, rescore(by_bits, by_numbers)

    def restored(self, numbers: NDArray[Any]) -> NDArray[np.float32]:
        """Convert stored numbers back to vectors (n, dim) in float32."""
        if self.form.numbers == "binary":
            return _signs(np.unpackbits(numbers, axis=1, count=self.dim).astype(np.float32) - 0.5)
        if self.form.numbers == "int8":
            low, step = self._steps
            restored: NDArray[np.float32] = low + (numbers.astype(np.float32) + 128.5) * step
            return restored
        return numbers.astype(np.float32)

    @property
    def _steps(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Lowest number and width of an int8 step of each dimension, (dim,) each."""
        assert self.ranges is not None
        low, high = self.ranges
        step = (high - low) / 255
        return low, np.where(step == 0, np.float32(1), step)


def rescore(by_bits: NDArray[np.float32], by_numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rank the first `RESCORED` passages by bits again, by their numbers; keep the others below.

    Args:
        by_bits: (query, passage) cosines of signs.
        by_numbers: (query, passage) cosines of the stored numbers.

    Returns:
        (query, passage) scores in the new order.
    """
    scores = by_bits - np.float32(_BELOW)
    for row, bits, numbers in zip(scores, by_bits, by_numbers, strict=True):
        near = highest(bits, RESCORED)
        row[near] = numbers[near]
    return scores


def _signs(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return +1 for numbers above 0 and -1 for others, scaled to rows of length 1."""
    size = np.float32(x.shape[1] ** -0.5)
    return np.where(x > 0, size, -size)
