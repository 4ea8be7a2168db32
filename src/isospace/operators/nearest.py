"""Exact nearest-neighbour search, used by every list, evaluation, page and index.

Products are computed in blocks, so that memory does not grow with the number of vectors. In a list
for people (`nearest`, `highest`), the first of equal targets comes first. Measurements treat ties
within `TIE` in ways that do not depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TIE = 1e-6
"""Cosines that differ by less count as equal; encoding in another batch changes them as much."""

BLOCK = 1 << 22
"""Number of products in memory: 16 MB in float32."""

_SLICE = 1 << 14  # targets compared at once


class Nearest(NamedTuple):
    """The nearest targets of one query, nearest first."""

    rows: NDArray[np.int64]
    products: NDArray[np.float32]


def unit_rows(x: NDArray[Any]) -> NDArray[np.float32]:
    """Scale rows (n, dim) to length 1; a row without a direction (zero, NaN) becomes zero."""
    # Squares of float16 and int8 would overflow; float64 is kept.
    x = x.astype(np.promote_types(x.dtype, np.float32), copy=False)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    if not np.isfinite(norms).all():  # asking every number first would take most of the time
        x = np.where(np.isfinite(x).all(1, keepdims=True), x, 0.0)
        norms = np.linalg.norm(x, axis=1, keepdims=True)
    return (x / np.where(norms > 0, norms, 1.0)).astype(np.float32, copy=False)


def product_blocks(
    queries: NDArray[np.float32], targets: NDArray[np.float32]
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield blocks of inner products: the row of the first query, and (queries, targets)."""
    step = max(1, BLOCK // max(1, len(targets)))
    for start in range(0, len(queries), step):
        yield start, queries[start : start + step] @ targets.T


def nearest(
    queries: NDArray[np.float32],
    targets: NDArray[np.float32] | Iterable[NDArray[np.float32]],
    k: int,
    left_out: NDArray[np.int64] | None = None,
) -> list[Nearest]:
    """Return the k targets with the highest inner products for each query; ties keep their order.

    Args:
        queries: (n, dim), finite.
        targets: (m, dim), finite; or an iterable of slices, if all targets do not fit in memory.
        k: number of targets for each query.
        left_out: (n,) row of a target to leave out for each query; -1 for none.

    >>> east, north = np.eye(2, dtype=np.float32)
    >>> nearest(np.array([east]), np.array([north, east, east + north]), 2)[0].rows
    array([1, 2])
    """
    best = [Nearest(np.empty(0, np.int64), np.empty(0, np.float32))] * len(queries)
    first = 0  # row of the first target of the slice
    for part in _slices(targets):
        for start, block in product_blocks(queries, part):
            for query, products in enumerate(block, start):
                place = -1 if left_out is None else left_out[query] - first
                if 0 <= place < len(part):
                    products[place] = -np.inf
                near = highest(products, k)
                best[query] = _best(best[query], Nearest(first + near, products[near]), k)
        first += len(part)
    return best


def _slices(
    targets: NDArray[np.float32] | Iterable[NDArray[np.float32]],
) -> Iterable[NDArray[np.float32]]:
    if isinstance(targets, np.ndarray):
        return (targets[start : start + _SLICE] for start in range(0, len(targets), _SLICE))
    return targets


def _best(earlier: Nearest, later: Nearest, k: int) -> Nearest:
    """Return the k nearest targets of two lists, without targets at -inf, which are left out."""
    rows = np.concatenate([earlier.rows, later.rows])
    products = np.concatenate([earlier.products, later.products])
    order = highest(products, k)
    order = order[products[order] > -np.inf]
    return Nearest(rows[order], products[order])


def highest(values: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Return the positions of the k highest values (n,), highest first; ties keep their order.

    >>> highest(np.array([0.1, 0.7, 0.7, 0.3]), 3)
    array([1, 2, 3])
    """
    if k < len(values):
        near = np.flatnonzero(values >= np.partition(values, -k)[-k])
    else:
        near = np.arange(len(values))
    return near[np.argsort(-values[near], kind="stable")[:k]]
