"""Compressed vectors: smaller numbers, and their comparison with queries.

Nothing is fitted: each vector is compressed alone, and only its direction is kept.

    int8    round(127 x / max |x|); a comparison scales the numbers to length 1
    binary  bit i is 1 if x_i > 0, eight to a byte, first dimension highest (the "ubinary" of
            sentence-transformers' `quantize_embeddings`); a comparison uses +1 and -1 for 1 and 0,
            divided by sqrt dim

Queries stay in full precision, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.operators.forms import RESCORED, FormName, Numbers, numbers_of
from isospace.operators.nearest import highest, product_blocks, unit_rows

_BELOW = 4.0
"""Subtracted from the scores of passages that are not rescored, so that they rank below the
others. Cosines differ by 2 at most."""


def compressed(vectors: NDArray[Any], numbers: Numbers) -> NDArray[Any]:
    """Return vectors (n, dim) in smaller numbers: (n, dim), or (n, dim / 8) if binary.

    >>> compressed(np.array([[0.3, -0.4, 0.0]]), "int8").tolist()
    [[95, -127, 0]]
    """
    if numbers == "binary":
        return np.packbits(vectors > 0, axis=1)
    unit = unit_rows(vectors)
    if numbers == "int8":
        largest = np.abs(unit).max(axis=1, keepdims=True)
        unit = np.rint(127 * unit / np.where(largest == 0, 1, largest))
    stored: NDArray[Any] = unit.astype(numbers)
    return stored


def restored(stored: NDArray[Any], dim: int) -> NDArray[np.float32]:
    """Convert stored numbers back to vectors (n, dim) in float32, of length 1."""
    if stored.dtype == np.uint8:
        stored = np.unpackbits(stored, axis=1, count=dim).astype(np.float32) - 0.5
    return unit_rows(stored)


def score_blocks(
    form: FormName, queries: NDArray[Any], passages: NDArray[Any]
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Compress passages (m, dim), and yield their scores for queries as `product_blocks` does."""
    dim = passages.shape[1]
    blocks = product_blocks(
        unit_rows(queries), restored(compressed(passages, numbers_of(form)), dim)
    )
    if form != "binary-rescored":
        yield from blocks
        return
    signs = (restored(compressed(side, "binary"), dim) for side in (queries, passages))
    for (start, by_bits), (_, by_numbers) in zip(product_blocks(*signs), blocks, strict=True):
        yield start, rescore(by_bits, by_numbers)


def rescore(by_bits: NDArray[np.float32], by_numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rank the first `RESCORED` passages by bits again, by their numbers; keep the others below.

    Both arguments are cosines (query, passage), of signs and of stored numbers.
    """
    scores = by_bits - np.float32(_BELOW)
    for row, bits, numbers in zip(scores, by_bits, by_numbers, strict=True):
        near = highest(bits, RESCORED)
        row[near] = numbers[near]
    return scores
