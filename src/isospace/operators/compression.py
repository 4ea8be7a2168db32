"""Small vectors: fewer dimensions, smaller numbers, and how a query is compared with them.

A compression is fitted once on vectors of a corpus: principal components, and the range of each
dimension. Vectors are scaled to length 1 before and after the components are taken. Numbers are
those of sentence-transformers' `quantize_embeddings`:

    int8    floor((x - low) / step) - 128, cut to -128..127, with step = (high - low) / 255 and the
            range low..high of each dimension; the middle of each step stands for it in a comparison
    binary  bit i is 1 where x_i > 0, eight to a byte, first dimension highest ("ubinary"); 1 and 0
            stand for +1 and -1, by sqrt dim

Queries stay in full precision, which costs nothing, but for the forms that compare bits with bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.operators.fitted_whitening import Moments, Whitening, WhiteningMap
from isospace.operators.forms import FORMS, RESCORED, Form, FormName, require_fit
from isospace.operators.nearest import highest, product_blocks, unit_rows

_BELOW = 4.0
"""What the others lose, so that they stay behind those; cosines differ by 2 at most."""


@dataclass(frozen=True, eq=False)
class Compression:
    """A fitted form: the same for every passage and query.

    Attributes:
        name: of the form, in `FORMS`.
        width: dimensions of the vectors before they are compressed.
        components: map to the principal components; `None` where the form keeps all dimensions.
        ranges: (2, dim) float32, the lowest and the highest number of each dimension; `None` where
            the form is not int8.
    """

    name: FormName
    width: int
    components: WhiteningMap | None = None
    ranges: NDArray[np.float32] | None = None

    @classmethod
    def fit(cls, name: FormName, vectors: NDArray[Any]) -> Compression:
        """Fit a form on vectors of a corpus.

        Args:
            name: of the form, in `FORMS`.
            vectors: (n, width) of passages.

        Raises:
            ValueError: the form is fitted, and the vectors are too few or too narrow for it.
        """
        form, width = FORMS[name], vectors.shape[1]
        require_fit(name, width, len(vectors))
        fitted = cls(name, width)
        if form.dim is not None:
            moments = Moments.from_vectors(torch.from_numpy(unit_rows(vectors)))
            whitening = Whitening(dim=form.dim, shrinkage=0.0)
            fitted = cls(name, width, whitening.fit(moments, power=0.0))
        if form.numbers == "int8":
            kept = fitted.floats(vectors)
            fitted = cls(
                name, width, fitted.components, np.stack([kept.min(axis=0), kept.max(axis=0)])
            )
        return fitted

    @property
    def form(self) -> Form:
        """The form."""
        return FORMS[self.name]

    @property
    def dim(self) -> int:
        """Number of dimensions that are stored."""
        return self.form.dim or self.width

    def floats(self, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """Return vectors (n, width) before their numbers are made smaller: (n, dim), length 1."""
        unit = unit_rows(vectors)
        if self.components is None:
            return unit
        return unit_rows(self.components(torch.from_numpy(unit).double()).numpy())

    def queries(self, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """Return what queries (n, width) are compared by, (n, dim), of length 1.

        Their inner products with `restored` passages are the scores, of the passages that bits have
        found where the form is rescored.
        """
        kept = self.floats(vectors)
        return _signs(kept) if self.form.bits and not self.form.rescored else kept

    def numbers(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Return what is stored of passages (n, width): (n, dim), or (n, dim / 8) of bits."""
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
        """Yield the scores of queries (n, width) with compressed passages (m, width), in blocks.

        Yields:
            The row of the first query of a block, and the block (queries of it, m).
        """
        blocks = product_blocks(self.queries(queries), self.restored(self.numbers(passages)))
        if not self.form.rescored:
            yield from blocks
            return
        signs = (_signs(self.floats(side)) for side in (queries, passages))
        for (start, by_bits), (_, by_numbers) in zip(product_blocks(*signs), blocks, strict=True):
            yield start, rescore(by_bits, by_numbers)

    def restored(self, numbers: NDArray[Any]) -> NDArray[np.float32]:
        """Return the vectors (n, dim) that stored numbers stand for, in float32."""
        if self.form.numbers == "binary":
            return _signs(np.unpackbits(numbers, axis=1, count=self.dim).astype(np.float32) - 0.5)
        if self.form.numbers == "int8":
            low, step = self._steps
            restored: NDArray[np.float32] = low + (numbers.astype(np.float32) + 128.5) * step
            return restored
        return numbers.astype(np.float32)

    @property
    def _steps(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The lowest number of each dimension, and the width of a step of int8, (dim,) each."""
        assert self.ranges is not None
        low, high = self.ranges
        step = (high - low) / 255
        return low, np.where(step == 0, np.float32(1), step)


def rescore(
    by_bits: NDArray[np.float32], by_numbers: NDArray[np.float32], first: int = RESCORED
) -> NDArray[np.float32]:
    """Rank the first passages by bits again, by their numbers; the others follow in their order.

    Args:
        by_bits: (query, passage) cosines of signs.
        by_numbers: (query, passage) cosines by the numbers.
        first: how many passages of each query are ranked again.

    Returns:
        (query, passage) scores with that order.

    Examples:
        >>> bits = np.array([[0.9, 0.8, 0.1]], np.float32)
        >>> numbers = np.array([[0.2, 0.6, 0.9]], np.float32)
        >>> np.argsort(-rescore(bits, numbers, 2)).tolist()
        [[1, 0, 2]]
    """
    scores = by_bits - np.float32(_BELOW)
    for row, bits, numbers in zip(scores, by_bits, by_numbers, strict=True):
        near = highest(bits, first)
        row[near] = numbers[near]
    return scores


def _signs(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return +1 for numbers above 0 and -1 for others, scaled to rows of length 1."""
    size = np.float32(x.shape[1] ** -0.5)
    return np.where(x > 0, size, -size)
