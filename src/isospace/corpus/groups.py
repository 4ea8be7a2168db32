"""Groups of rows that share a text, nearly share a text, or share a value of a column.

The rows of a group are held out together, and are all validation or all test items. Statistics
count a group as one observation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.dedup import near_clusters

SMALLEST_SPLIT = 400
"""Least number of items to split: with fewer, both parts would be too small to measure with."""
DEV_PAIRS, TEST_PAIRS = 1000, 2000
"""Largest numbers of validation and test pairs."""


def components(texts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Group rows that share a text, directly or through other rows.

    Returns:
        (row,) group of each row, from 0 on, without gaps.

    >>> components(np.array([[0, 1], [2, 3], [4, 1], [4, 5]])).tolist()
    [0, 1, 0, 0]
    """
    # Imported here, because the processes that read docstrings import this module without need
    # for graphs.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count, width = texts.shape
    named: NDArray[np.int64] = np.unique(texts, return_inverse=True)[1]
    if width == 1 or not count:
        return named.ravel()
    nodes = count + named.ravel()  # rows and texts are nodes of one graph
    rows = np.repeat(np.arange(count), width)
    size = int(nodes.max()) + 1
    links = coo_array((np.ones(len(nodes), np.int8), (rows, nodes)), shape=(size, size))
    labels: NDArray[np.int64] = connected_components(links, directed=False)[1][:count]
    return np.unique(labels, return_inverse=True)[1]


def cut(groups: NDArray[np.int64], parts: NDArray[np.int64], largest: int) -> NDArray[np.int64]:
    """Divide groups of more than `largest` rows into parts; return each row's group, (row,).

    >>> cut(np.array([0, 0, 0, 1]), np.array([7, 5, 7, 6]), 2).tolist()
    [2, 1, 2, 0]
    """
    whole = np.bincount(groups)[groups] <= largest
    labels: NDArray[np.int64] = np.where(whole, groups, len(groups) + parts)
    return np.unique(labels, return_inverse=True)[1]


def group_texts(rows: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    """Group rows that share or nearly share a text; return each row's group, (row,).

    >>> rows = [("a cat", "it purrs"), ("a dog", "it barks"), ("one cat", "It purrs!")]
    >>> group_texts(rows).tolist()
    [0, 1, 0]
    """
    if not rows:
        return np.empty(0, np.int64)
    numbers: dict[str, int] = {}
    ids = [[numbers.setdefault(text, len(numbers)) for text in row] for row in rows]
    near = near_clusters(list(numbers), np.arange(len(numbers)))
    return components(near[np.array(ids)])


def key_groups(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Group rows by key; return each row's group, (row,). A row with key 0 is a separate group.

    >>> key_groups(np.array([7, 0, 5, 0, 7], dtype=np.uint64)).tolist()
    [1, 2, 0, 3, 1]
    """
    labels: NDArray[np.int64] = np.unique(keys, return_inverse=True)[1]
    missing = np.flatnonzero(keys == 0)
    labels[missing] = len(keys) + np.arange(len(missing))
    return np.unique(labels, return_inverse=True)[1]


def unit_of(group: str | None) -> str:
    """Return the name of the groups in messages; `group` is the user's column.

    >>> unit_of("thread"), unit_of(None)
    ('groups by thread', 'groups')
    """
    return f"groups by {group}" if group else "groups"


def group_key(value: Any) -> str:
    """Return a cell of the user's column as text; "" if it is missing, NaN or blank.

    >>> group_key(12), group_key(" a "), group_key(None), group_key(float("nan"))
    ('12', 'a', '', '')
    """
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else str(value).strip()


def group_names(groups: NDArray[np.int64], hashes: NDArray[np.uint64]) -> list[str]:
    """Return a name for each row's group, made from its hashes, independent of the rows' order.

    >>> group_names(np.array([0, 1]), np.array([[9, 1], [8, 2]], dtype=np.uint64))
    ['00000000000000090000000000000001', '00000000000000080000000000000002']
    """
    least: dict[int, tuple[int, ...]] = {}
    for group, row in zip(groups.tolist(), map(tuple, hashes.tolist()), strict=True):
        least[group] = min(least.get(group, row), row)
    names = {group: "".join(f"{text:016x}" for text in row) for group, row in least.items()}
    return [names[group] for group in groups.tolist()]


def whole_groups(
    groups: NDArray[np.int64], order: NDArray[np.int64], count: int, largest: int | None = None
) -> NDArray[np.bool_]:
    """Select whole groups in the given order while they fit; return the rows selected, (row,).

    At most `count` rows are selected, and no group of more than `largest` rows.

    >>> whole_groups(np.array([0, 0, 0, 1, 2]), np.array([0, 2, 1]), 2).tolist()
    [False, False, False, True, True]
    """
    sizes = np.bincount(groups)
    selected = np.zeros(len(sizes), dtype=bool)
    largest = count if largest is None else largest
    for group in order:
        if sizes[group] <= min(count, largest):
            selected[group] = True
            count -= int(sizes[group])
        if count <= 0:
            break
    return selected[groups]


def split_groups(groups: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the validation items and of the test items, both ascending.

    `groups` names the group of each item. Whole groups become validation items, at most a third of
    all items and `DEV_PAIRS`, in the order of a hash of their names. If there are fewer than
    `SMALLEST_SPLIT` items, or every group is too large, both results are all items.

    >>> validation, test = split_groups([str(i // 2) for i in range(600)])
    >>> len(validation), len(test), len({i // 2 for i in validation} & {i // 2 for i in test})
    (200, 400, 0)
    """
    everything = np.arange(len(groups))
    if len(groups) < SMALLEST_SPLIT:
        return everything, everything
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups))}
    order = np.array([numbers[name] for name in sorted(numbers, key=_hash)])
    labels = np.array([numbers[name] for name in groups])
    validation = whole_groups(labels, order, min(DEV_PAIRS, len(groups) // 3))
    if not validation.any():
        return everything, everything
    return np.flatnonzero(validation), np.flatnonzero(~validation)


def _hash(name: str) -> bytes:
    return blake2b(name.encode("utf-8", "surrogatepass")).digest()


def name_hash(name: str) -> int:
    """Return a 64-bit hash of a name; 0 for an empty name."""
    if not name:
        return 0
    content = name.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


Pair = tuple[str, str]


@dataclass(frozen=True)
class Pairs:
    """Natural pairs, such as summary and next paragraph, or anchor and positive."""

    dev: list[Pair] = field(default_factory=list)
    """Validation pairs."""
    test: list[Pair] = field(default_factory=list)
    """Test pairs; the same as `dev` if there are too few to split."""
    dev_groups: list[str] = field(default_factory=list)
    """The group of each pair of `dev`; after a split, no group is in both parts."""
    test_groups: list[str] = field(default_factory=list)
    """The group of each pair of `test`."""
    unit: str = "groups"
    """Name of the groups in messages, in the plural."""
    relation: str = ""
    """The relation of the documents that the pairs are from; else ""."""

    @classmethod
    def at(
        cls,
        pairs: Sequence[Pair],
        groups: Sequence[str],
        dev: NDArray[np.int64],
        test: NDArray[np.int64],
        unit: str,
        relation: str = "",
    ) -> Pairs:
        """Return the pairs at the positions `dev` and `test`, with their groups."""
        return cls(
            [pairs[i] for i in dev],
            [pairs[i] for i in test],
            [groups[i] for i in dev],
            [groups[i] for i in test],
            unit,
            relation,
        )

    @property
    def split(self) -> bool:
        """True if validation and test pairs have no group in common."""
        return set(self.dev_groups).isdisjoint(self.test_groups)
