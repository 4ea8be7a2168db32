"""The numbered texts of a training: the lines of a corpus, then added texts."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.corpus import Corpus
from isospace.corpus.dedup import near_clusters
from isospace.corpus.groups import name_hash

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Texts:
    """Numbered texts: the lines of the corpus, then added texts.

    Attributes:
        corpus: the corpus, whose lines come first.
        added: texts of a file of queries.
        origins: (text, m) the document of each text, if the corpus has documents, and a number that
            equal and nearly equal texts share.
    """

    corpus: Corpus
    added: tuple[str, ...]
    origins: Rows

    @classmethod
    def from_corpus(cls, corpus: Corpus) -> Texts:
        """Return the texts of a corpus."""
        return cls(corpus, (), _origins_of_lines(corpus))

    def with_added(self, texts: Sequence[str]) -> Texts:
        """Return these texts, followed by others."""
        origins = np.concatenate([self.origins, _origins_of_added(texts, self.corpus)])
        return replace(self, added=(*self.added, *texts), origins=origins)

    def __len__(self) -> int:
        return len(self.origins)

    def __iter__(self) -> Iterator[str]:
        return chain(self.corpus, self.added)

    def __getitem__(self, number: int) -> str:
        lines = len(self.corpus)
        return self.corpus[number] if number < lines else self.added[number - lines]

    @property
    def documents(self) -> Rows:
        """(text,) document of each text, or a number that equal and nearly equal texts share."""
        return self.origins[:, 0]

    @property
    def digest(self) -> str:
        """Digest of all texts."""
        if not self.added:
            return self.corpus.digest
        content = "\0".join(self.added).encode()
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
