"""BM25: words of a text, and an index of texts."""

from __future__ import annotations

import logging
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.groups import MARKS, UNSPACED
from isospace.operators.nearest import BLOCK
from isospace.system.progress import log_level
from isospace.system.unicode import normalise

_LETTER = f"[^\\W_{UNSPACED}]"
_WORD = re.compile(f"({_LETTER}+(?:[{MARKS}]+{_LETTER}*)*)|((?:(?=[{UNSPACED}])[\\w{MARKS}])+)")
"""Two groups: a word, or a run of a script without spaces."""

# Joiners that `normalise` leaves. In Arabic script U+200C separates words, as a space does.
_JOINER = re.compile("[\u200b\u200d]|(?<![\u0600-\u06ff\u0750-\u077f])\u200c")


def bm25_terms(text: str) -> list[str]:
    """Return the words of a text, in order.

    Words are runs of letters, marks and digits in normalised text without case and width. In
    scripts without spaces every two neighbouring characters are a word, as in Lucene's analyser for
    Chinese, Japanese and Korean. No step depends on the language.

    >>> bm25_terms("Read the CAFÉ's snake_case")
    ['read', 'the', 'café', 's', 'snake', 'case']
    >>> bm25_terms("हिन्दी 猫が好き。")
    ['हिन्दी', '猫が', 'が好', '好き']
    """
    found: list[str] = []
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _JOINER.sub("", normalise(text)))
    for spaced, unspaced in _WORD.findall(text.casefold()):
        one = spaced or len(unspaced) == 1
        found += [spaced or unspaced] if one else map("".join, pairwise(unspaced))
    return found


class BM25:
    """BM25 index of texts; it stores a number for each distinct word of each text.

    bm25s (Lù 2024, arXiv 2407.03618) computes the scores, in Lucene's variant with k1 = 1.5 and
    b = 0.75, without stemming and without a list of stop words.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.count = len(texts)
        self._vocabulary: dict[str, int] = {}
        of_texts = [
            [self._vocabulary.setdefault(word, len(self._vocabulary)) for word in bm25_terms(text)]
            for text in texts
        ]
        # bm25s runs JAX if that is installed, and JAX would take most of the GPU's memory.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import bm25s

        self._index = bm25s.BM25()
        # The import of bm25s sets the level of its logger to DEBUG.
        with log_level("bm25s", logging.WARNING):
            if self._vocabulary:
                self._index.index((of_texts, self._vocabulary), show_progress=False)

    def scores(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Return scores (query, text); 0 if a query and a text share no word."""
        scores = np.zeros((len(queries), self.count), np.float32)
        for row, query in zip(scores, queries, strict=True):
            known = [
                self._vocabulary[word] for word in bm25_terms(query) if word in self._vocabulary
            ]
            if known:
                row[:] = self._index.get_scores_from_ids(known)
        return scores

    def blocks(self, queries: Sequence[str]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield `scores` in blocks of queries, as `nearest.product_blocks` yields products."""
        step = max(1, BLOCK // max(1, self.count))
        for start in range(0, len(queries), step):
            yield start, self.scores(queries[start : start + step])
