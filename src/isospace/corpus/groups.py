"""What belongs together: rows that share or nearly share a text, or a value of a column.

Such rows are held out together, are validation or test items together, and count as one where
chance is judged.
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
"""Items below which there is no split: a third of fewer says little, and so do two thirds."""


def components(texts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Group rows that share a text, directly or by others; return each row's group, (row,).

    Returns:
        (row,) from 0 on, without gaps.

    >>> components(np.array([[0, 1], [2, 3], [4, 1], [4, 5]])).tolist()
    [0, 1, 0, 0]
    """
    # Not above: the processes that read docstrings import this module, and need no graphs.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count, width = texts.shape
    named: NDArray[np.int64] = np.unique(texts, return_inverse=True)[1]
    if width == 1 or not count:
        return named.ravel()
    nodes = count + named.ravel()  # a row is a node, and so is a text
    rows = np.repeat(np.arange(count), width)
    size = int(nodes.max()) + 1
    links = coo_array((np.ones(len(nodes), np.int8), (rows, nodes)), shape=(size, size))
    labels: NDArray[np.int64] = connected_components(links, directed=False)[1][:count]
    return np.unique(labels, return_inverse=True)[1]


def cut(groups: NDArray[np.int64], parts: NDArray[np.int64], largest: int) -> NDArray[np.int64]:
    """Divide groups of more than `largest` rows into their parts, (row,) from 0 on.

    >>> cut(np.array([0, 0, 0, 1]), np.array([7, 5, 7, 6]), 2).tolist()
    [2, 1, 2, 0]
    """
    whole = np.bincount(groups)[groups] <= largest
    labels: NDArray[np.int64] = np.where(whole, groups, len(groups) + parts)
    return np.unique(labels, return_inverse=True)[1]


def group_texts(rows: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    """Group rows of texts in memory that share or nearly share a text.

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
    """Number the rows' groups by key, (row,), from 0 on; a row of key 0 is a group of its own.

    >>> key_groups(np.array([7, 0, 5, 0, 7], dtype=np.uint64)).tolist()
    [1, 2, 0, 3, 1]
    """
    labels: NDArray[np.int64] = np.unique(keys, return_inverse=True)[1]
    missing = np.flatnonzero(keys == 0)
    labels[missing] = len(keys) + np.arange(len(missing))
    return np.unique(labels, return_inverse=True)[1]


def unit_of(group: str | None) -> str:
    """Name the groups: of a column that the user named, or of texts.

    >>> unit_of("thread"), unit_of(None)
    ('groups by thread', 'groups')
    """
    return f"groups by {group}" if group else "groups"


def group_key(value: Any) -> str:
    """Return a cell of the user's column as text; "" where it is missing, NaN or blank.

    >>> group_key(12), group_key(" a "), group_key(None), group_key(float("nan"))
    ('12', 'a', '', '')
    """
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else str(value).strip()


def group_names(groups: NDArray[np.int64], hashes: NDArray[np.uint64]) -> list[str]:
    """Name each row's group by its content, whatever the order of the rows.

    >>> group_names(np.array([0, 1, 0]), np.array([[9, 1], [8, 2], [7, 3]], dtype=np.uint64))
    ['00000000000000070000000000000003', '00000000000000080000000000000002', \
    00000000000070000000000000003']
    """
    least: dict[int, tuple[int, ...]] = {}
    for group, row in zip(groups.tolist(), map(tuple, hashes.tolist()), strict=True):
        least[group] = min(least.get(group, row), row)
    names = {group: "".join(f"{text:016x}" for text in row) for group, row in least.items()}
    return [names[group] for group in groups.tolist()]


def whole_groups(
    groups: NDArray[np.int64], order: NDArray[np.int64], count: int, largest: int | None = None
) -> NDArray[np.bool_]:
    """Take groups whole, each where it still fits; return which rows are taken, (row,).

    A group of more than `count` rows, or than `largest`, is never taken.

    >>> whole_groups(np.array([0, 0, 0, 1, 2]), np.array([0, 2, 1]), 2).tolist()
    [False, False, False, True, True]
    """
    sizes = np.bincount(groups)
    taken = np.zeros(len(sizes), dtype=bool)
    largest = count if largest is None else largest
    for group in order:
        if sizes[group] <= min(count, largest):
            taken[group] = True
            count -= int(sizes[group])
        if count <= 0:
            break
    return taken[groups]


def split_groups(
    groups: Sequence[str], at_most_share: float = 1 / 3, at_most: int = 1000
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the validation items and of the test items, both ascending.

    Groups go whole to one side, in the order of a hash of their names. Both sides are all items
    where these are fewer than `SMALLEST_SPLIT`, or where every group is too large.

    Args:
        groups: the name of each item's group.
        at_most_share: of the validation items.
        at_most: validation items.

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
    validation = whole_groups(labels, order, min(at_most, int(len(groups) * at_most_share)))
    if not validation.any():
        return everything, everything
    return np.flatnonzero(validation), np.flatnonzero(~validation)


def _hash(name: str) -> bytes:
    return blake2b(name.encode("utf-8", "surrogatepass")).digest()


def name_hash(name: str) -> int:
    """Hash a name, of a group for instance; 0 for no name."""
    if not name:
        return 0
    content = name.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


DEV_PAIRS, TEST_PAIRS = 1000, 2000


Pair = tuple[str, str]


@dataclass(frozen=True)
class Pairs:
    """Natural pairs: of a docstring's summary and next paragraph, of an anchor and its positive."""

    dev: list[Pair] = field(default_factory=list)
    """Validation pairs."""
    test: list[Pair] = field(default_factory=list)
    """Test pairs; the same as `dev` where there are too few to split."""
    dev_groups: list[str] = field(default_factory=list)
    """The group of each pair of `dev`; none of them is in `test` where there is a split."""
    test_groups: list[str] = field(default_factory=list)
    """The group of each pair of `test`."""
    unit: str = "groups"
    """What the groups are, in the plural."""
    relation: str = ""
    """Which relation of the documents they are."""

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
        """Tell whether the validation pairs are others than the test pairs."""
        return set(self.dev_groups).isdisjoint(self.test_groups)
