"""Documents as clean lines, cut to passages, with the role of each line in its document."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isospace.config import CorpusConfig
from isospace.corpus.documents import Document
from isospace.corpus.groups import components, key_groups, name_hash
from isospace.corpus.lines import clean, folded
from isospace.corpus.passages import LONGEST_WORD, document_sentences, language_of, passages_of
from isospace.corpus.relations import Role, Rows, Structure


class Staging:
    """Converter from documents to lines that records role, document and section of each line."""

    def __init__(self, config: CorpusConfig, counts: dict[str, int]) -> None:
        self._config, self._counts = config, counts
        self._roles, self._documents, self._sections = array("b"), array("q"), array("q")
        self._groups = array("Q")
        self._section = -1
        self.structured = 0
        """Number of documents with several passages, a title or a summary."""

    def lines(self, documents: Iterable[Document]) -> Iterator[str]:
        """Yield the lines of all documents in order, except documents without a usable passage."""
        for document in documents:
            number = len(self._groups)
            parts = list(self._passages(document))
            if not parts:
                continue
            self._groups.append(name_hash(document.group))
            title = clean(document.title)
            pair = document.summary_next
            structured = bool(title) or len(parts) > 1 or pair is not None
            if structured:
                self.structured += 1
            if title:
                yield self._line(Role.TITLE, title, number)
            if pair is not None:
                yield self._line(Role.SUMMARY, clean(pair[0]), number)
                yield self._line(Role.NEXT, clean(pair[1]), number)
            above = -1
            for section, passage in parts:
                if section != above:
                    self._section += 1
                    above = section
                    if heading := clean(document.sections[section].heading):
                        yield self._line(Role.HEADING, heading, number)
                yield self._line(Role.PASSAGE, passage, number)
                if structured:
                    language = document.language or language_of(passage)
                    yield from self._two_parts(passage, number, language)

    def _passages(self, document: Document) -> Iterator[tuple[int, str]]:
        """Yield (section, passage) for passages of a usable length; count the other passages."""
        counts = self._counts
        size = self._config.passage_words
        cut = list(passages_of(document, size))
        counts["read"] += max(1, len(cut))
        counts["empty"] += not cut
        for section, passage in cut:
            if len(passage) < self._config.min_chars:
                counts["too short"] += 1
            elif size is not None and len(passage) > LONGEST_WORD * size:  # it is not text
                counts["too long"] += 1
            else:
                yield section, passage

    def _two_parts(self, passage: str, number: int, language: str) -> Iterator[str]:
        """Yield the first sentence and the rest of a passage, if both are long enough."""
        first, *others = document_sentences(passage, language)
        rest = folded("\n".join(others))
        if min(len(first), len(rest)) >= max(1, self._config.min_chars):
            yield self._line(Role.FIRST, first, number)
            yield self._line(Role.REST, rest, number)

    def _line(self, role: Role, text: str, number: int) -> str:
        self._roles.append(role)
        self._documents.append(number)
        self._sections.append(self._section)
        return text

    def structure(self) -> tuple[Structure, NDArray[np.uint64]]:
        """Return the structure of all lines, and a key of each document's group, (document,).

        If long documents are most of the text, they are cut into several (`cut_long`).
        """
        structure = Structure(
            np.array(self._roles, dtype=np.int8),
            np.array(self._documents, dtype=np.int64),
            np.array(self._sections, dtype=np.int64),
        )
        keys = np.array(self._groups, dtype=np.uint64)
        structure, owners = cut_long(structure, keys == 0)
        if len(owners) > len(keys):
            parts = np.bincount(owners)
            self._counts["parts of long documents"] = int(parts[parts > 1].sum())
        return structure, keys[owners]


def document_groups(keys: NDArray[np.uint64], alike: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the group of each document, (document,), from 0 on.

    `keys` come from the user's column or from folders; else each document is a group. Groups are
    joined if documents of both are `alike`, (pair, 2).
    """
    own = key_groups(keys)
    pairs = np.concatenate([np.stack([own, own], axis=1), own[alike].reshape(-1, 2)])
    return components(pairs)[: len(own)]


def alike_documents(
    documents: NDArray[np.int64], repeats: NDArray[np.int64], passages: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Pair documents that share half or more of the passages of the shorter one, (pair, 2).

    `documents` has the document of each line; `repeats` has pairs of lines that (nearly) repeat
    each other; `passages` are the lines that are passages.

    >>> documents = np.array([0, 0, 1, 1, 2])
    >>> alike_documents(documents, np.array([[2, 0], [4, 1]]), np.arange(5)).tolist()
    [[0, 1], [0, 2]]
    """
    pairs = np.sort(documents[repeats].reshape(-1, 2), axis=1)
    pairs, shared = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0, return_counts=True)
    sizes = np.bincount(documents[passages])
    found: NDArray[np.int64] = pairs[2 * shared >= sizes[pairs].min(axis=1)]
    return found


PARTS = 400
"""Largest number of parts to cut a text into; a tenth of the parts is held out."""
SMALLEST = 5
"""Least number of passages in a part."""


def cut_long(structure: Structure, alone: NDArray[np.bool_]) -> tuple[Structure, Rows]:
    """Cut long documents into parts, if long documents are more than half of the text.

    A document is long if it has more than a tenth of all passages: it could not be held out. A part
    ends at the end of a section, or inside a section with twice the passages of a part. Only
    documents that are `alone` in their group are cut.

    Returns:
        The structure with each part as a document, and the original document of each part,
        (part,), ascending.
    """
    documents, sections, roles = structure.documents, structure.sections, structure.roles
    passages = structure.passages
    sizes = np.bincount(documents[passages], minlength=len(alone))
    long = alone & (10 * sizes > len(passages))
    if 2 * sizes[long].sum() <= len(passages):
        return structure, np.arange(len(alone))
    size = max(SMALLEST, len(passages) // PARTS)
    begins, within = np.zeros((2, len(documents)), dtype=np.int64)
    count = 0
    for line in np.flatnonzero(long[documents]).tolist():
        if line == 0 or documents[line] != documents[line - 1]:
            count = 0
        elif roles[line] in (Role.HEADING, Role.PASSAGE):
            same = sections[line] == sections[line - 1]
            if count >= (2 * size if same else size):
                begins[line], within[line], count = 1, same, 0
        count += int(roles[line] == Role.PASSAGE)
    parts = documents + np.cumsum(begins)
    owners = documents[np.unique(parts, return_index=True)[1]]
    return replace(structure, documents=parts, sections=sections + np.cumsum(within)), owners
