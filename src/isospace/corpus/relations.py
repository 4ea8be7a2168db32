"""Which texts of a document belong together: relations that nobody had to label.

All here is about positions: a corpus has a line for each title, heading and passage, for the first
sentence and the rest of each passage of several sentences, and for the summary and the next
paragraph of a docstring.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

FIRST_REST = "first-rest"
"""The one relation whose texts are parts of passages."""


class Role(IntEnum):
    """What a line of a corpus is to its document."""

    PASSAGE = 0
    TITLE = 1
    HEADING = 2
    FIRST = 3
    """The first sentence of the passage in the line before."""
    REST = 4
    """What follows that first sentence, in the line after it."""
    SUMMARY = 5
    """What begins a docstring."""
    NEXT = 6
    """The paragraph after that summary, in the line after it."""


@dataclass(frozen=True)
class Structure:
    """Where the lines of a corpus stand, in the order of the documents.

    Attributes:
        roles: (line,) of `Role`.
        documents: (line,) number of the document, ascending.
        sections: (line,) number of the section, over all documents, ascending.
        links: (link, 2) numbers of documents, of which the first names the second.
    """

    roles: NDArray[np.int8]
    documents: Rows
    sections: Rows
    links: Rows

    @property
    def passages(self) -> Rows:
        """Lines that are passages, ascending."""
        return np.flatnonzero(self.roles == Role.PASSAGE)

    def around(self, passages: Rows) -> Rows:
        """Lines of these passages, of their parts, and of what names or sums up their document."""
        kept = np.zeros(len(self.roles), dtype=bool)
        kept[passages] = True
        first, rest = (np.flatnonzero(self.roles == role) for role in (Role.FIRST, Role.REST))
        kept[first], kept[rest] = kept[first - 1], kept[rest - 2]
        above = [(role, self.documents) for role in (Role.TITLE, Role.SUMMARY, Role.NEXT)]
        for role, places in (*above, (Role.HEADING, self.sections)):
            with_passage = np.zeros(int(places.max(initial=-1)) + 1, dtype=bool)
            with_passage[places[passages]] = True
            kept |= (self.roles == role) & with_passage[places]
        return np.flatnonzero(kept)

    def take(self, lines: Rows) -> Structure:
        """Where these lines stand, once they are the only ones; documents keep their numbers."""
        return replace(
            self,
            roles=self.roles[lines],
            documents=self.documents[lines],
            sections=self.sections[lines],
        )


def _under(structure: Structure, role: Role, places: Rows) -> Rows:
    """(pair, 2): the line of this role that has the same place as each passage, and the passage."""
    above = np.full(int(places.max(initial=-1)) + 1, -1)
    lines = np.flatnonzero(structure.roles == role)
    above[places[lines]] = lines
    passages = structure.passages
    pairs = np.stack([above[places[passages]], passages], axis=1)
    found: Rows = pairs[pairs[:, 0] >= 0]
    return found


def title_passage(structure: Structure) -> Rows:
    """The title of a document and each of its passages."""
    return _under(structure, Role.TITLE, structure.documents)


def heading_section(structure: Structure) -> Rows:
    """A heading and each passage that stands directly under it."""
    return _under(structure, Role.HEADING, structure.sections)


def first_rest(structure: Structure) -> Rows:
    """The first sentence of a passage and the rest of it."""
    first = np.flatnonzero(structure.roles == Role.FIRST)
    return np.stack([first, first + 1], axis=1)


def summary_next(structure: Structure) -> Rows:
    """The summary of a docstring and the paragraph after it."""
    summary = np.flatnonzero(structure.roles == Role.SUMMARY)
    return np.stack([summary, summary + 1], axis=1)


def neighbours(structure: Structure) -> Rows:
    """Two passages of a document that follow each other."""
    passages = structure.passages
    pairs = np.stack([passages[:-1], passages[1:]], axis=1)
    found: Rows = pairs[structure.documents[pairs[:, 0]] == structure.documents[pairs[:, 1]]]
    return found


def crops(structure: Structure) -> Rows:
    """A passage of several sentences and itself: of each a crop is drawn (Izacard et al. 2022)."""
    passages = np.flatnonzero(structure.roles == Role.FIRST) - 1
    return np.stack([passages, passages], axis=1)


def links(structure: Structure) -> Rows:
    """The first passage of a document and that of a document which it names."""
    passages = structure.passages
    documents, first = np.unique(structure.documents[passages], return_index=True)
    size = 1 + int(max(documents.max(initial=-1), structure.links.max(initial=-1)))
    lead = np.full(size, -1)
    lead[documents] = passages[first]
    pairs = lead[structure.links].reshape(-1, 2)
    found: Rows = pairs[(pairs >= 0).all(axis=1)]
    return found


RELATIONS: dict[str, Callable[[Structure], Rows]] = {
    "title-passage": title_passage,
    "heading-section": heading_section,
    FIRST_REST: first_rest,
    "summary-next": summary_next,
    "neighbours": neighbours,
    "crops": crops,
    "links": links,
}
"""Name -> (pair, 2) lines that belong together."""
