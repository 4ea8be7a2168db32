"""The numbered texts of a training: the lines of a corpus, then shortened and added texts."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.corpus import Corpus
from isospace.corpus.dedup import near_clusters, without_words_of
from isospace.corpus.groups import name_hash

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Texts:
    """Numbered texts: the lines of the corpus, then shortened passages, then added texts.

    Attributes:
        corpus: the corpus, whose lines come first.
        shortened: (n, 2) lines of titles, and of passages to read without the titles' words.
        added: texts of a file of queries.
        origins: (text, m) the document of each text, if the corpus has documents, and a number that
            equal and nearly equal texts share.
    """

    corpus: Corpus
    shortened: Rows
    added: tuple[str, ...]
    origins: Rows

    @classmethod
    def from_corpus(cls, corpus: Corpus, shortened: Rows | None = None) -> Texts:
        """Return the texts of a corpus; by default no passage is shortened."""
        if shortened is None:
            shortened = np.empty((0, 2), np.int64)
        own = _origins_of_lines(corpus)
        return cls(corpus, shortened, (), np.concatenate([own, own[shortened[:, 1]]]))

    def with_added(self, texts: Sequence[str]) -> Texts:
        """Return these texts, followed by others."""
        origins = np.concatenate([self.origins, _origins_of_added(texts, self.corpus)])
        return replace(self, added=(*self.added, *texts), origins=origins)

    def __len__(self) -> int:
        return len(self.origins)

    def __iter__(self) -> Iterator[str]:
        return chain(self.corpus, (self[number] for number in range(len(self.corpus), len(self))))

    def __getitem__(self, number: int) -> str:
        if number < len(self.corpus):
            return self.corpus[number]
        place = number - len(self.corpus)
        if place >= len(self.shortened):
            return self.added[place - len(self.shortened)]
        return without_words_of(*(self.corpus[line] for line in self.shortened[place].tolist()))

    @property
    def documents(self) -> Rows:
        """(text,) document of each text, or a number that equal and nearly equal texts share."""
        return self.origins[:, 0]

    @property
    def digest(self) -> str:
        """Digest of all texts."""
        if not len(self.shortened) and not self.added:
            return self.corpus.digest
        content = self.shortened.tobytes() + "\0".join(self.added).encode()
        return self.corpus.digest + blake2b(content, digest_size=8).hexdigest()


@functools.lru_cache(maxsize=1)
def _origins_of_lines(corpus: Corpus) -> Rows:
    """Return (line, m): each line's document, if any, and a number that similar texts share."""
    same = corpus.same[:, None]
    if corpus.related is None:
        return same
    documents = corpus.related.structure.documents[:, None]
    return np.concatenate([documents, 1 + documents.max(initial=-1) + same], axis=1)


def _origins_of_added(texts: Sequence[str], corpus: Corpus) -> Rows:
    """Return (text, m): origins of the first line with the same text, or new numbers."""
    origins = _origins_of_lines(corpus)
    # Of texts that are no line here, (nearly) equal ones are one document.
    fresh = 1 + int(origins.max()) + near_clusters(texts, np.arange(len(texts)))
    numbers: Rows = np.repeat(fresh[:, None], origins.shape[1], axis=1)
    waiting: dict[int, list[int]] = {}
    for place, text in enumerate(texts):
        waiting.setdefault(name_hash(text.casefold()), []).append(place)
    for line, text in enumerate(corpus):
        for place in waiting.pop(name_hash(text.casefold()), ()):
            numbers[place] = origins[line]
    return numbers
