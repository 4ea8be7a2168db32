"""The nearest-neighbour search against dull loops, whatever the slices and blocks."""

import tracemalloc

import numpy as np
import pytest

from isospace.operators import nearest as module
from isospace.operators.nearest import nearest, unit_rows

RANDOM = np.random.default_rng(0)
QUERIES = unit_rows(RANDOM.normal(size=(5, 4)))
TARGETS = unit_rows(RANDOM.normal(size=(40, 4)))
TIED = RANDOM.integers(-1, 2, (40, 3)).astype(np.float32)  # products are whole numbers


def by_a_loop(query, targets, k, left_out=-1):
    products = {row: float(query @ target) for row, target in enumerate(targets)}
    products.pop(left_out, None)
    rows = sorted(products, key=lambda row: -products[row])[:k]
    return rows, [products[row] for row in rows]


@pytest.mark.parametrize("block", [1, 60, 1 << 20])
@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize("k", [1, 10, 60])
def test_slices_and_blocks_give_what_a_loop_gives(monkeypatch, block, size, k):
    """Of equally near targets the first comes first, and a row that is left out never comes."""
    monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(module, "_SLICE", size)
    slices = (TARGETS[start : start + size] for start in range(0, len(TARGETS), size))
    left_out = np.array([0, 39, 6, 7, -1])
    for queries, targets, rows, left in (
        (QUERIES, TARGETS, TARGETS, None),
        (QUERIES, slices, TARGETS, None),
        (QUERIES, TARGETS, TARGETS, left_out),
        (TIED, TIED, TIED, None),
    ):
        for i, near in enumerate(nearest(queries, targets, k, left)):
            wanted, products = by_a_loop(queries[i], rows, k, -1 if left is None else left[i])
            assert near.rows.tolist() == wanted
            assert near.products.tolist() == pytest.approx(products, abs=1e-6)


def test_nothing_is_near_to_nothing():
    assert nearest(QUERIES[:0], TARGETS, 3) == []
    for targets in (TARGETS[:0], []):
        assert [len(near.rows) for near in nearest(QUERIES, targets, 3)] == [0] * 5


def test_memory_is_bounded():
    vectors = unit_rows(RANDOM.normal(size=(6000, 8)))
    tracemalloc.start()
    try:
        nearest(vectors, vectors, 3)
        assert tracemalloc.get_traced_memory()[1] < 60e6  # all products are 144 MB
    finally:
        tracemalloc.stop()


def test_unit_rows():
    rows = unit_rows(np.array([[300.0, 400.0], [0.0, 0.0], [np.nan, 1.0]], np.float16))
    assert rows.dtype == np.float32
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0], [0.0, 0.0]]
