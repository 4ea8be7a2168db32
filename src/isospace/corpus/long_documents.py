"""Long documents in parts: where a book is all the text there is, some of it is held out, too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.relations import Role, Rows, Structure

PARTS = 400
"""As many parts are made of a text at most, of which a tenth is held out."""
SMALLEST = 5
"""Passages of a part, or more where a section goes on."""


def cut_long(structure: Structure, alone: NDArray[np.bool_]) -> tuple[Structure, Rows]:
    """Make several documents of each long one, where these are more than half of the text.

    A document that has more than a tenth of all passages cannot be held out. A part ends with a
    section, or within one that has twice as many passages as a part should.

    Args:
        structure: of the lines, with documents from 0 on.
        alone: (document,) whether it is a group of its own; others stay whole.

    Returns:
        The structure, and the document that each part is of, (part,), ascending.
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
    # What was linked to is where its document begins.
    links = np.searchsorted(owners, structure.links)
    cut = replace(structure, documents=parts, sections=sections + np.cumsum(within), links=links)
    return cut, owners
