"""Selection of the examples of a corpus to keep and to hold out.

An example is a passage, or a row of texts: anchor, positive and perhaps a hard negative, which are
consecutive lines. This module works on positions and hashes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.groups import (
    Rows,
    Texts,
    first_equal,
    near_clusters,
    near_duplicates,
    near_references,
    whole_groups,
)
from isospace.errors import UserError
from isospace.system.unicode import without_surrogates


def evenly(n: int, at_most: int) -> list[int]:
    """Return up to `at_most` evenly spaced positions of n items.

    >>> evenly(3, 5), evenly(10, 4)
    ([0, 1, 2], [0, 2, 5, 7])
    """
    size = min(n, at_most)
    return [i * n // size for i in range(size)]


def select_passages(
    text: Texts,
    hashes: NDArray[np.uint64],
    references: int,
    passages: Rows,
    near: bool,
) -> tuple[Rows, Rows, dict[str, int]]:
    """Return the lines of the passages to keep, ascending, without (`near`) repetitions.

    `text` begins with `references` texts that must not be trained on. The second result is
    (repetition, 2): the lines of a passage that was left out and of an earlier passage that it
    repeats. The third counts what was left out.
    """
    rows = np.concatenate([np.arange(references), passages])
    first = first_equal(hashes[rows])
    distinct = np.flatnonzero(first == np.arange(len(first)))
    copies = np.flatnonzero(first != np.arange(len(first)))
    copied = copies[first[copies] >= references]
    earlier = np.full(len(distinct), -1)
    if near or references:
        earlier = near_duplicates(text, rows[distinct], references)
    candidate = distinct >= references
    leaked = candidate & (earlier >= 0) & (earlier < references)
    repeated = candidate & (earlier >= references) & near
    counts = {
        "exact duplicates": len(copied),
        "near duplicates": int(repeated.sum()),
        "evaluation pairs": len(copies) - len(copied) + int(leaked.sum()),
    }
    repeats = np.concatenate(
        [
            np.stack([copied, first[copied]], axis=1),
            np.stack([distinct[repeated], distinct[earlier[repeated]]], axis=1),
        ]
    )
    return rows[distinct[candidate & ~leaked & ~repeated]], rows[repeats], counts


def select_examples(
    text: Texts,
    hashes: NDArray[np.uint64],
    references: int,
    texts: int,
) -> tuple[Rows, dict[str, int]]:
    """Return the lines of the examples to keep, ascending, and counts of what was left out.

    Each example has `texts` lines. Of equal examples the first is kept. Nearly equal examples are
    all kept, because a text may occur in several, such as one anchor with several positives. An
    example is left out if one of its texts (nearly) repeats one of the first `references` texts.
    """
    first = first_equal(hashes)
    leaked = np.arange(len(first)) < references
    if references:
        distinct = np.flatnonzero(first == np.arange(len(first)))
        leaked[distinct[near_references(text, distinct, references)]] = True
    examples = first[references:].reshape(-1, texts)
    listed = np.asarray(leaked[examples].any(axis=1))
    distinct_examples = np.sort(np.unique(examples, axis=0, return_index=True)[1])
    chosen = distinct_examples[~listed[distinct_examples]]
    counts = {
        "exact duplicates": len(examples) - int(listed.sum()) - len(chosen),
        "near duplicates": 0,
        "evaluation pairs": int(listed.sum()),
    }
    return (references + texts * chosen[:, None] + np.arange(texts)).ravel(), counts


def same_texts(text: Texts, lines: Rows, hashes: NDArray[np.uint64]) -> Rows:
    """Return a number for each line, (line,), equal for lines that (nearly) repeat each other."""
    # In the order of the hashes, so that the result does not depend on the order of the lines.
    _, distinct, place = np.unique(hashes, return_index=True, return_inverse=True)
    return near_clusters(text, lines[distinct])[place]


def hold_out(
    hashes: NDArray[np.uint64],
    texts: Rows,
    groups: Rows,
    count: int,
    positive: NDArray[np.bool_] | None = None,
    largest: int | None = None,
    sides: slice = slice(2),
) -> tuple[Rows, Rows]:
    """Return the examples to hold out and the examples to train on, both ascending.

    Whole groups are held out, smallest hashes first: a random sample that depends neither on a
    random state nor on the order of the examples. No text is anchor or positive of two held-out
    examples, since a query with two right answers measures nothing. The rest of a held-out group is
    not trained on, and neither is any other example with a held-out text. Examples are not held out
    if more than one in ten of all examples would be lost to training in this way.

    Args:
        hashes: (example, text).
        texts: (example, text) number of each text, equal for texts that (nearly) repeat each other.
        groups: (example,) from 0 on.
        count: largest number of examples to hold out.
        positive: (example,) true if an example may be held out; default: all.
        largest: largest size of a group to hold out; default: `count`.
        sides: the texts of an example that are held out.

    >>> hashes = np.array([[1, 9], [5, 6], [7, 9], [1, 8]], dtype=np.uint64)
    >>> held, train = hold_out(hashes, hashes.astype(np.int64), np.array([0, 1, 2, 0]), 2)
    >>> held.tolist(), train.tolist()
    ([3], [1, 2])
    """
    others = _in_other_groups(texts, groups)[:, sides].sum(axis=1)
    room = len(texts) // 10
    order = np.lexsort([*hashes.T[::-1], *hashes[:, sides].T[::-1]])
    order = order[others[order] <= room]
    if positive is not None:
        order = order[positive[order]]
    first = np.unique(groups[order], return_index=True)[1]
    in_held_group = whole_groups(groups, groups[order][np.sort(first)], count, largest)
    held: list[int] = []
    held_texts: set[int] = set()
    for example in order[in_held_group[order]]:
        own = texts[example, sides].tolist()
        if others[example] <= room and held_texts.isdisjoint(own):
            held.append(int(example))
            held_texts.update(own)
            room -= int(others[example])
    found = np.sort(np.array(held, dtype=np.int64))
    left_out = np.isin(groups, groups[found])
    left_out |= np.isin(texts, np.fromiter(held_texts, np.int64)).any(axis=1)
    return found, np.flatnonzero(~left_out)


def _in_other_groups(texts: Rows, groups: Rows) -> Rows:
    """Count how often each text is in an example of another group, (example, text).

    >>> _in_other_groups(np.array([[0, 1], [0, 2], [3, 1]]), np.array([0, 0, 1])).tolist()
    [[0, 1], [0, 0], [0, 1]]
    """
    size = int(texts.max(initial=0)) + 1
    within = groups[:, None] * size + texts
    _, place, counts = np.unique(within, return_inverse=True, return_counts=True)
    inside: Rows = counts[place].reshape(texts.shape)
    found: Rows = np.bincount(texts.ravel(), minlength=size)[texts] - inside
    return found


ENTAILMENT = "entailment"
"""The label of texts that belong together, as in corpora for natural language inference."""


def label_of(value: Any, place: str, column: str) -> str:
    """Return a cell of the label column as text, or refuse it; `place` names file and line."""
    label = without_surrogates(str(value).strip()) if isinstance(value, str | int) else ""
    if not label:
        raise UserError(
            f'{place}: "{column}" is {value!r}, expected a label, text or a whole number. Remove '
            "the row, or name another column with `label_column`."
        )
    return sys.intern(label)  # rows share a few texts


def belonging(classes: Sequence[str], labels: Rows) -> NDArray[np.bool_] | None:
    """Return (row,) true if a row's texts belong together; `None` if no class says so.

    >>> belonging(["contradiction", "entailment"], np.array([1, 0, 1])).tolist()
    [True, False, True]
    """
    # Corpora on the Hub write 0, 1 and 2 for entailment, neutral and contradiction.
    wanted = "0" if {"0", "1", "2"}.issubset(classes) else ENTAILMENT
    if wanted not in classes:
        return None
    found: NDArray[np.bool_] = labels == classes.index(wanted)
    return found
