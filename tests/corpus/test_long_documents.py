"""A text that is one book, or a few: what is held out of it."""

from __future__ import annotations

import numpy as np

from isospace.corpus.relations import RELATIONS, Role, Structure
from isospace.corpus.staging import cut_long

P, T, H = Role.PASSAGE, Role.TITLE, Role.HEADING


def test_a_part_ends_with_a_section_or_within_a_long_one():
    roles = np.array([T, *[H, *[P] * 7] * 2, H, *[P] * 23, P, P], np.int8)
    documents = np.array([0] * (len(roles) - 2) + [1, 2])
    sections = np.repeat([-1, 0, 1, 2, 3, 4], [1, 8, 8, 24, 1, 1])
    structure = Structure(roles, documents, sections)
    cut, owners = cut_long(structure, np.ones(3, bool))
    assert owners.tolist() == [0, 0, 0, 0, 0, 1, 2]
    passages = np.bincount(cut.documents[cut.passages])
    assert passages.tolist() == [7, 7, 10, 10, 3, 1, 1]
    # What is another part of a section has no heading there.
    pairs = RELATIONS["heading-section"](cut)
    assert len(pairs) == 7 + 7 + 10
    assert (cut.documents[pairs[:, 0]] == cut.documents[pairs[:, 1]]).all()
    same, owners = cut_long(structure, np.array([False, True, True]))
    assert same is structure
    assert owners.tolist() == [0, 1, 2]
