"""Near duplicates, and groups of rows: those that share a text, nearly share one, or share a value.

The rows of a group are held out together, and are all validation or all test items. Statistics
count a group as one observation.

Near duplicates are found by MinHash (Broder, "On the resemblance and containment of documents",
1997), banding (Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets", chapter 3), and an
exact Jaccard check of the candidates. Results depend on the texts only. Libraries need more memory
than the 140 bytes a text here: rensa 0.5 takes 2 kB, datasketch 2.0 more and 15 times as long.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Any, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
"""Positions of rows, or a number for each row."""

THRESHOLD = 0.8
"""Two texts are near duplicates if the Jaccard similarity of their word bigrams is at least this.

One replaced word changes two bigrams. Texts that differ by one word are near duplicates from 17
words on; texts that differ by two words, from 35 words on.
"""

# A pair of similarity s shares a band with probability 1 - (1 - s^4)^10. That is 0.995 at the
# threshold, 0.94 at 0.7 and 0.08 at 0.3, so few dissimilar pairs need the exact check.
_BANDS, _ROWS = 10, 4
_AT_ONCE = 1024  # texts as lists of words, which need 13 times as many bytes

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
"""Scripts written without spaces (Thai to Burmese, Khmer, kana, Han): each character is a word."""
MARKS = "".join(
    character
    for character in map(chr, chain(range(0x300, 0x1F000), range(0xE0100, 0xE01F0)))
    if unicodedata.category(character).startswith("M")
)
r"""Combining marks, such as the vowel signs of Hindi: part of a word, but not matched by \w."""
_LETTER = f"[^\\W{UNSPACED}]"
_WORD = re.compile(f"[{UNSPACED}]|{_LETTER}+(?:[{MARKS}]+{_LETTER}*)*")
_ASCII_WORD = re.compile(r"\w+")  # equal for ASCII, in a quarter of the time
_NUMBER = re.compile(r"\d+")
_BEFORE_SIGN = re.compile(r" (?=[,.;:!?)\]])")  # a removed word left this blank


class Texts(Protocol):
    """A sequence of texts indexed by position, such as a list or lines on disk."""

    def __getitem__(self, row: int, /) -> str: ...


def compared_words(text: str) -> list[str]:
    """Split a text into words to compare, ignoring case, width and the value of numbers.

    >>> compared_words("Listing 12: the CAFÉ, 猫だ, हिन्दी")
    ['listing', '0', 'the', 'café', '猫', 'だ', 'हिन्दी']
    """
    folded = _NUMBER.sub("0", _folded(text))
    return _word_of(folded).findall(folded) or [folded]


def _word_of(text: str) -> re.Pattern[str]:
    return _ASCII_WORD if text.isascii() else _WORD


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def without_words_of(first: str, second: str) -> str:
    """Remove the words of the first text from the second, unless no word would be left.

    >>> without_words_of("The cat 2", "The cats: one CAT, the oldest of 3, purrs.")
    'cats: one, oldest of 3, purrs.'
    """
    folded = _folded(first)
    gone = set(_word_of(folded).findall(folded))
    left = _word_of(second).sub(lambda word: "" if _folded(word[0]) in gone else word[0], second)
    if not _word_of(left).search(left):
        return second
    return _BEFORE_SIGN.sub("", " ".join(left.split()))


def jaccard(first: str, second: str) -> float:
    """Return the Jaccard similarity of the two texts' sets of word bigrams, ends included.

    >>> jaccard("the cat sat down", "The cat sat!")
    0.5
    """
    a, b = (set(pairwise(["", *compared_words(text), ""])) for text in (first, second))
    return len(a & b) / len(a | b)


def near_duplicates(texts: Texts, rows: Rows, references: int = 0) -> Rows:
    """Return for each of `rows` the position (n,) of an earlier one that it nearly repeats, or -1.

    The first `references` rows take precedence over other earlier texts. Dropping every text whose
    result is not -1 keeps the first of each cluster. The time is linear in the number of texts.

    >>> cats = ["One cat sat on the mat.", "one cat sat on the mat", "Two dogs ran off."]
    >>> near_duplicates(cats, np.arange(3)).tolist()
    [-1, 0, -1]
    """
    repeated = np.full(len(rows), -1, dtype=np.int64)
    for earlier, later in _possible_pairs(texts, rows):
        known = repeated[later]
        if known >= 0 and (known < references or earlier >= references):
            continue
        if jaccard(texts[rows[earlier]], texts[rows[later]]) >= THRESHOLD:
            repeated[later] = earlier
    return repeated


def repeating(texts: Iterable[str], references: Sequence[str]) -> set[str]:
    """Return the texts that repeat, or nearly repeat, one of the references.

    >>> repeating(["One cat sat.", "One dog sat."], ["one cat sat"])
    {'One cat sat.'}
    """
    rows, count = [*references, *dict.fromkeys(texts)], len(references)
    return {rows[place] for place in near_references(rows, np.arange(len(rows)), count)}


def near_references(texts: Texts, rows: Rows, references: int) -> Rows:
    """Return the places in `rows` of texts that (nearly) repeat one of its first `references`."""
    earlier = near_duplicates(texts, rows, references)
    earlier[:references] = -1
    return np.flatnonzero((earlier >= 0) & (earlier < references))


def near_clusters(texts: Texts, rows: Rows) -> Rows:
    """Return for each of `rows` the smallest position (n,) in its cluster of near duplicates.

    Banding misses a few pairs, and which ones depends on the order of `rows`. To be independent of
    the order, sort `rows` by content.

    >>> cats = ["One cat sat on the mat.", "Two dogs ran off.", "one cat sat on the mat"]
    >>> near_clusters(cats, np.arange(3)).tolist()
    [0, 1, 0]
    """
    near: set[tuple[int, int]] = set()
    for one, other in _possible_pairs(texts, rows):
        pair = texts[rows[one]], texts[rows[other]]
        if (one, other) not in near and jaccard(*pair) >= THRESHOLD:
            near.add((one, other))
    return first_equal(linked(np.arange(len(rows)), np.array([*near], np.int64)))


def _possible_pairs(texts: Texts, rows: Rows) -> Iterator[tuple[int, int]]:
    """Yield positions (earlier, later) in `rows` of candidate pairs, found by banding."""
    keys = np.empty((_BANDS, len(rows)), dtype=np.uint64)
    for start in range(0, len(rows), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        keys[:, part] = _band_keys([compared_words(texts[row]) for row in rows[part]])
    for band in keys:
        yield from _candidates(band)


def first_equal(keys: NDArray[np.uint64] | Rows) -> Rows:
    """Return for each key the position of the first key equal to it, (n,).

    >>> first_equal(np.array([7, 5, 7, 7], dtype=np.uint64)).tolist()
    [0, 1, 0, 0]
    """
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return first[place]


def _candidates(keys: NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
    """Pair each text with the first and the last earlier text that has the same key in a band."""
    order, places = np.argsort(keys, kind="stable"), np.arange(len(keys))
    begins = np.ones(len(keys), dtype=bool)
    begins[1:] = keys[order[1:]] != keys[order[:-1]]
    heads = np.maximum.accumulate(np.where(begins, places, 0))  # where equal keys begin
    for place in np.flatnonzero(heads != places):
        later = int(order[place])
        yield int(order[heads[place]]), later
        if heads[place] != place - 1:
            yield int(order[place - 1]), later


def _band_keys(texts: list[list[str]]) -> NDArray[np.uint64]:
    """Return (bands, n) keys of n texts given as words; candidates share a key in a band."""
    lengths = np.array([len(text) + 1 for text in texts])
    starts = np.cumsum(lengths) - lengths
    encoded = (word.encode("utf-8", "surrogatepass") for text in texts for word in (*text, ""))
    word = np.fromiter(map(crc32, encoded), dtype=np.uint64, count=int(lengths.sum()))
    previous = np.concatenate([word[-1:], word[:-1]])  # the end mark of a text starts the next
    bigram = _mix((previous << np.uint64(32)) | word)
    keys = np.zeros((_BANDS, len(texts)), dtype=np.uint64)
    for band in range(_BANDS):
        for factor, shift in _PERMUTATIONS[band]:
            least = np.minimum.reduceat((bigram * factor + shift) >> np.uint64(32), starts)
            keys[band] = _mix(keys[band] ^ least)
    return keys


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter all bits by SplitMix64's finaliser, a bijection (Steele, Lea and Flood 2014)."""
    x = (x + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


# Odd factors and shifts of the multiply-shift hashes, (bands, rows, 2).
_PERMUTATIONS = _mix(np.arange(_BANDS * _ROWS * 2, dtype=np.uint64)).reshape(_BANDS, _ROWS, 2)
_PERMUTATIONS[..., 0] |= np.uint64(1)


def evenly(n: int, at_most: int) -> list[int]:
    """Return up to `at_most` evenly spaced positions of n items.

    >>> evenly(3, 5), evenly(10, 4)
    ([0, 1, 2], [0, 2, 5, 7])
    """
    size = min(n, at_most)
    return [i * n // size for i in range(size)]


SMALLEST_SPLIT = 400
"""Least number of items to split: with fewer, both parts would be too small to measure with."""
DEV_PAIRS, TEST_PAIRS = 1000, 2000
"""Largest numbers of validation and test pairs."""


def components(texts: Rows) -> Rows:
    """Return the group (row,), from 0 on, of rows that share a text, also through other rows.

    >>> components(np.array([[0, 1], [2, 3], [4, 1], [4, 5]])).tolist()
    [0, 1, 0, 0]
    """
    # Imported here, because the processes that read docstrings need no graphs.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count, width = texts.shape
    named: Rows = np.unique(texts, return_inverse=True)[1]
    if width == 1 or not count:
        return named.ravel()
    nodes = count + named.ravel()  # rows and texts are nodes of one graph
    rows = np.repeat(np.arange(count), width)
    size = int(nodes.max()) + 1
    links = coo_array((np.ones(len(nodes), np.int8), (rows, nodes)), shape=(size, size))
    labels: Rows = connected_components(links, directed=False)[1][:count]
    return np.unique(labels, return_inverse=True)[1]


def linked(groups: Rows, links: Rows) -> Rows:
    """Join the groups (row,) of rows that `links`, (link, 2), connect.

    >>> linked(np.array([0, 0, 1, 2]), np.array([[3, 1]])).tolist()
    [0, 0, 1, 0]
    """
    pairs = np.concatenate([np.stack([groups, groups], axis=1), groups[links].reshape(-1, 2)])
    return components(pairs)[: len(groups)]


def cut(groups: Rows, parts: Rows, largest: int) -> Rows:
    """Divide groups of more than `largest` rows into parts; return each row's group, (row,).

    >>> cut(np.array([0, 0, 0, 1]), np.array([7, 5, 7, 6]), 2).tolist()
    [2, 1, 2, 0]
    """
    whole = np.bincount(groups)[groups] <= largest
    labels: Rows = np.where(whole, groups, len(groups) + parts)
    return np.unique(labels, return_inverse=True)[1]


def group_texts(rows: Sequence[tuple[str, ...]]) -> Rows:
    """Group rows that share or nearly share a text; return each row's group, (row,).

    >>> group_texts([("a cat", "it purrs"), ("a dog", "it barks"), ("one cat", "It purrs!")])
    array([0, 1, 0])
    """
    if not rows:
        return np.empty(0, np.int64)
    numbers: dict[str, int] = {}
    ids = [[numbers.setdefault(text, len(numbers)) for text in row] for row in rows]
    near = near_clusters(list(numbers), np.arange(len(numbers)))
    return components(near[np.array(ids)])


def key_groups(keys: NDArray[np.uint64]) -> Rows:
    """Group rows by key; return each row's group, (row,). A row with key 0 is a separate group.

    >>> key_groups(np.array([7, 0, 5, 0, 7], dtype=np.uint64)).tolist()
    [1, 2, 0, 3, 1]
    """
    labels: Rows = np.unique(keys, return_inverse=True)[1]
    missing = np.flatnonzero(keys == 0)
    labels[missing] = len(keys) + np.arange(len(missing))
    return np.unique(labels, return_inverse=True)[1]


def unit_of(group: str | None) -> str:
    """Return the name of the groups in messages; `group` is the user's column."""
    return f"groups by {group}" if group else "groups"


def group_key(value: Any) -> str:
    """Return a cell of the user's column as text; "" if it is missing, NaN or blank.

    >>> group_key(12), group_key(" a "), group_key(None), group_key(float("nan"))
    ('12', 'a', '', '')
    """
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else str(value).strip()


def group_names(groups: Rows, hashes: NDArray[np.uint64]) -> list[str]:
    """Return a name for each row's group, made from its hashes, independent of the rows' order."""
    least: dict[int, tuple[int, ...]] = {}
    for group, row in zip(groups.tolist(), map(tuple, hashes.tolist()), strict=True):
        least[group] = min(least.get(group, row), row)
    names = {group: "".join(f"{text:016x}" for text in row) for group, row in least.items()}
    return [names[group] for group in groups.tolist()]


def whole_groups(
    groups: Rows, order: Rows, count: int, largest: int | None = None
) -> NDArray[np.bool_]:
    """Select whole groups in order while they fit into `count` rows; return a mask (row,).

    No group of more than `largest` rows is selected.

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


def split_groups(groups: Sequence[str]) -> tuple[Rows, Rows]:
    """Return the positions of the validation items and of the test items, both ascending.

    Whole groups become validation items, at most a third of all items and `DEV_PAIRS`, in the order
    of a hash of their names. With fewer than `SMALLEST_SPLIT` items, or if every group is too
    large, both results are all items.

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
    """Validation (`dev`) and test pairs of texts, with the group of each pair.

    Too few pairs are not split: both parts have all. After a split, no group is in both parts.
    """

    dev: list[Pair] = field(default_factory=list)
    test: list[Pair] = field(default_factory=list)
    dev_groups: list[str] = field(default_factory=list)
    test_groups: list[str] = field(default_factory=list)
    unit: str = "groups"
    """Name of the groups in messages, in the plural."""
    relation: str = ""
    """The relation of the documents that the pairs are from; else ""."""

    @classmethod
    def at(
        cls,
        pairs: Sequence[Pair],
        groups: Sequence[str],
        dev: Rows,
        test: Rows,
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
