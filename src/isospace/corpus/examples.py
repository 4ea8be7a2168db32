"""Which examples of a corpus to keep, and which to hold out.

An example is a sentence, or a row of texts: anchor, positive and perhaps a hard negative. The texts
of an example are consecutive lines of a `corpus.Corpus`. All here is about positions and hashes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.dedup import Texts, first_equal, near_duplicates


def select_sentences(
    text: Texts,
    hashes: NDArray[np.uint64],
    references: int,
    near: bool,
    scratch: Path,
    counts: dict[str, int],
) -> NDArray[np.int64]:
    """Lines of the sentences to keep, ascending; `near` drops near duplicates too.

    Args:
        text: texts that must not be trained on, then the sentences.
        hashes: (references + sentences,) of each line.
        references: how many lines must not be trained on.
        near: whether to drop what nearly repeats an earlier sentence.
        scratch: folder for temporary files.
        counts: receives what became of the sentences.
    """
    first = first_equal(hashes)
    distinct = np.flatnonzero(first == np.arange(len(first)))
    copies = len(first) - len(distinct)
    listed = int(np.sum(first[references:] < references))
    earlier = np.full(len(distinct), -1)
    if near or references:
        earlier = near_duplicates(text, distinct, references, scratch)
    candidate = np.arange(len(distinct)) >= references
    leaked = candidate & (earlier >= 0) & (earlier < references)
    repeated = candidate & (earlier >= references) & near
    counts |= {
        "exact duplicates": copies - listed,
        "near duplicates": int(repeated.sum()),
        "evaluation pairs": listed + int(leaked.sum()),
    }
    return distinct[candidate & ~leaked & ~repeated]


def select_examples(
    text: Texts,
    hashes: NDArray[np.uint64],
    references: int,
    texts: int,
    scratch: Path,
    counts: dict[str, int],
) -> NDArray[np.int64]:
    """Lines of the examples to keep, ascending.

    Of equal examples the first is kept. Texts may return in other examples, as one anchor does
    with several positives, and so nearly equal ones are kept too. An example goes if one of its
    texts is, or nearly repeats, a text that must not be trained on.

    The arguments are those of `select_sentences`, where each example has `texts` lines.
    """
    first = first_equal(hashes)
    leaked = np.arange(len(first)) < references
    if references:
        distinct = np.flatnonzero(first == np.arange(len(first)))
        earlier = near_duplicates(text, distinct, references, scratch)
        leaked[distinct[(earlier >= 0) & (earlier < references)]] = True
    examples = first[references:].reshape(-1, texts)
    distinct_examples = np.sort(np.unique(examples, axis=0, return_index=True)[1])
    chosen = distinct_examples[~leaked[examples[distinct_examples]].any(axis=1)]
    counts |= {
        "exact duplicates": len(examples) - len(distinct_examples),
        "near duplicates": 0,
        "evaluation pairs": len(distinct_examples) - len(chosen),
    }
    return (references + texts * chosen[:, None] + np.arange(texts)).ravel()


def hold_out(hashes: NDArray[np.uint64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which examples to hold out and which to train on, both ascending.

    Held out are those with the least hashes: a random sample that depends on no random state and
    not on the order of the examples. No text is anchor or positive of two of them, since a pair
    with two right answers measures nothing; and no example that has such a text is trained on.

    Args:
        hashes: (examples, texts) of each text.
        count: how many to hold out at most.

    >>> held, train = hold_out(np.array([[1, 9], [5, 6], [7, 9], [1, 8]], dtype=np.uint64), 1)
    >>> held.tolist(), train.tolist()
    ([3], [1, 2])
    """
    held: list[int] = []
    held_texts: set[int] = set()
    for example in np.lexsort(hashes.T[::-1]):
        if len(held) == count:
            break
        pair = hashes[example, :2].tolist()
        if held_texts.isdisjoint(pair):
            held.append(int(example))
            held_texts.update(pair)
    shared = np.isin(hashes, np.fromiter(held_texts, np.uint64)).any(axis=1)
    return np.sort(np.array(held, dtype=np.int64)), np.flatnonzero(~shared)
