"""Relations between the texts of documents: pairs that belong together, without labels.

A corpus has a line for each title, heading and passage. A passage of several sentences also has a
line for its first sentence and one for the rest. A docstring has lines for its summary and next
paragraph. This module works on positions of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.docstrings import SUMMARY_NEXT
from isospace.corpus.groups import (
    DEV_PAIRS,
    TEST_PAIRS,
    Pairs,
    Rows,
    Texts,
    compared_words,
    evenly,
    name_hash,
    near_duplicates,
    near_references,
    split_groups,
)
from isospace.corpus.lines import Lines
from isospace.errors import UserError

FIRST_REST = "first-rest"
"""The only relation whose texts are parts of passages."""


class Role(IntEnum):
    """The role of a line in its document."""

    PASSAGE = 0
    TITLE = 1
    HEADING = 2
    FIRST = 3
    """The first sentence of the passage; the passage is the line before."""
    REST = 4
    """The rest of the passage, on the line after its first sentence."""
    SUMMARY = 5
    """The summary of a docstring."""
    NEXT = 6
    """The paragraph after the summary, on the line after it."""


@dataclass(frozen=True)
class Structure:
    """`Role`, document and section of each line, all (line,); the last two ascend.

    Sections are counted over all documents.
    """

    roles: NDArray[np.int8]
    documents: Rows
    sections: Rows

    @property
    def passages(self) -> Rows:
        """The lines that are passages, ascending."""
        return np.flatnonzero(self.roles == Role.PASSAGE)

    def around(self, passages: Rows) -> Rows:
        """Return the lines of passages, and of their parts, titles, headings and summaries."""
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
        """Return the structure of these lines only; documents keep their numbers."""
        return Structure(self.roles[lines], self.documents[lines], self.sections[lines])


def _under(structure: Structure, role: Role, places: Rows) -> Rows:
    """Pair each passage with the line of this role in its place: document or section, (pair, 2)."""
    above = np.full(int(places.max(initial=-1)) + 1, -1)
    lines = np.flatnonzero(structure.roles == role)
    above[places[lines]] = lines
    passages = structure.passages
    pairs: Rows = np.stack([above[places[passages]], passages], axis=1)
    return pairs[pairs[:, 0] >= 0]


def _with_next(structure: Structure, role: Role) -> Rows:
    """Pair each line of this role with the line after it, (pair, 2)."""
    lines = np.flatnonzero(structure.roles == role)
    return np.stack([lines, lines + 1], axis=1)


def neighbours(structure: Structure) -> Rows:
    """Pair two consecutive passages of a document."""
    before, after = structure.passages[:-1], structure.passages[1:]
    same = structure.documents[before] == structure.documents[after]
    return np.stack([before[same], after[same]], axis=1)


def crops(structure: Structure) -> Rows:
    """Pair a passage of several sentences with itself, to draw two crops (Izacard et al. 2022)."""
    passages = np.flatnonzero(structure.roles == Role.FIRST) - 1
    return np.stack([passages, passages], axis=1)


RELATIONS: dict[str, Callable[[Structure], Rows]] = {
    "title-passage": lambda structure: _under(structure, Role.TITLE, structure.documents),
    "heading-section": lambda structure: _under(structure, Role.HEADING, structure.sections),
    FIRST_REST: lambda structure: _with_next(structure, Role.FIRST),
    SUMMARY_NEXT: lambda structure: _with_next(structure, Role.SUMMARY),
    "neighbours": neighbours,
    "crops": crops,
}
"""Relation -> function that returns the (pair, 2) lines that belong together."""

EVALUATION_RELATIONS = ("title-passage", "heading-section", FIRST_REST, "neighbours")
"""Relations for validation and test pairs: the first with `FEW_PAIRS` held-out pairs is used."""
FEW_PAIRS = 100


@dataclass(frozen=True)
class Related:
    """Pairs of lines of a corpus that belong together; flags are (line,)."""

    structure: Structure
    distinctive: NDArray[np.bool_]
    """True if a line can be part of a pair. Excluded are titles, headings and first sentences that
    several documents share, such as "Introduction", and lines that (nearly) repeat a text that must
    not be trained on."""
    held: NDArray[np.bool_]
    """True if the document of a line is held out."""
    trained: NDArray[np.bool_]
    """True if a line may be trained on. Its document must neither be held out nor be related to a
    held-out document. The line must not (nearly) repeat a line of a held-out document or a text
    that must not be trained on. If a passage or half of it does so, its parts are excluded too."""

    @classmethod
    def build(
        cls,
        structure: Structure,
        text: Lines,
        held: Rows,
        train: Rows,
        barred: NDArray[np.bool_],
    ) -> tuple[Related, Rows]:
        """Find the pairs; `barred` is from `barred_lines`.

        The second result is (line,) a number that lines to train on share if they (nearly) repeat
        each other.
        """
        size = int(structure.documents.max(initial=-1)) + 1
        of_held, of_train = np.zeros((2, size), dtype=bool)
        of_held[structure.documents[held]] = True
        of_train[structure.documents[train]] = True
        is_held, trained = of_held[structure.documents], of_train[structure.documents]
        held_lines, others = np.flatnonzero(is_held), np.flatnonzero(trained)
        rows = np.concatenate([held_lines, others])
        earlier = near_duplicates(text, rows, len(held_lines))[len(held_lines) :]
        of_tests = barred.copy()
        of_tests[others] |= (earlier >= 0) & (earlier < len(held_lines))
        trained &= ~_whole(structure, np.diff(text.offsets), of_tests)
        same = np.arange(len(trained))
        again = np.flatnonzero(earlier >= len(held_lines))
        same[others[again]] = rows[earlier[again]]
        while (same != same[same]).any():  # follow repetitions of repetitions to the first line
            same = same[same]
        return cls(structure, _distinctive(structure, text) & ~barred, is_held, trained), same

    def to_train(self, relation: str) -> Rows:
        """Return the pairs of a relation to train on, (pair, 2) lines."""
        return self._pairs(relation, self.trained)

    def held_out(self, relation: str) -> Rows:
        """Return the pairs of a relation in held-out documents, (pair, 2) lines."""
        return self._pairs(relation, self.held)

    def _pairs(self, relation: str, allowed: NDArray[np.bool_]) -> Rows:
        pairs = RELATIONS[relation](self.structure)
        return pairs[(self.distinctive & allowed)[pairs].all(axis=1)]

    def answers(self, relation: str, text: Lines) -> dict[str, Rows]:
        """Return for each query the lines that must not count as wrong answers.

        A query is the first text of a held-out pair. The lines are its own and those of the second
        texts of all its held-out pairs.
        """
        pairs = self.held_out(relation)
        if relation == "neighbours":  # the passage before is as right as the passage after
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
        found: dict[str, set[int]] = {}
        for first, second in pairs.tolist():
            found.setdefault(text[first], {first}).add(second)
        return {query: np.array(sorted(lines)) for query, lines in found.items()}

    def sought(self, relation: str, passages: Rows) -> Rows:
        """Return the line to search for each passage, (passage,): itself, or its rest."""
        if relation != FIRST_REST:
            return passages
        with_rest = np.zeros(len(self.structure.roles) + 2, dtype=bool)
        with_rest[np.flatnonzero(self.structure.roles == Role.FIRST) - 1] = True
        lines: Rows = passages + 2 * with_rest[passages]
        return lines

    def evaluation_relation(self, wanted: str | None) -> str | None:
        """Return the relation of validation and test pairs, or `None`; refuse one without pairs."""
        counts = {name: len(self.held_out(name)) for name in RELATIONS}
        if wanted is None:
            return next((name for name in EVALUATION_RELATIONS if counts[name] >= FEW_PAIRS), None)
        if counts[wanted] < 2:
            have = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
            raise UserError(
                f"`test_relation` {wanted}: the held-out documents have no pairs of this "
                f"relation. They have {have or 'no pairs of any relation'}"
            )
        return wanted

    def counts(self) -> dict[str, int]:
        """Count the pairs of each relation to train on."""
        return {name: len(self.to_train(name)) for name in RELATIONS}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return structure and flags as arrays by name, for `from_arrays`."""
        flags = np.stack([self.distinctive, self.held, self.trained])
        return {**vars(self.structure), "flags": flags}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Related | None:
        """Return what gave these `arrays`; `None` if the texts of the corpus have no structure."""
        if "flags" not in arrays:
            return None
        structure = Structure(*(arrays[name] for name in ("roles", "documents", "sections")))
        return cls(structure, *arrays["flags"])


def barred_lines(
    structure: Structure, text: Texts, lines: Rows, references: int
) -> NDArray[np.bool_]:
    """Return (line,) true if a line other than a passage (nearly) repeats a text not to train on.

    `text` begins with `references` such texts; line i of the documents is its line `lines[i]`.
    """
    barred = np.zeros(len(lines), dtype=bool)
    if references:
        others = np.flatnonzero(structure.roles != Role.PASSAGE)
        rows = np.concatenate([np.arange(references), lines[others]])
        barred[others[near_references(text, rows, references) - references]] = True
    return barred


def evaluation_pairs(
    related: Related, relation: str, text: Lines, held: Rows, held_groups: Sequence[str]
) -> Pairs:
    """Split the held-out pairs of a relation in the same way as the held-out passages."""
    documents = related.structure.documents
    group_of = dict(zip(documents[held].tolist(), held_groups, strict=True))
    lines = related.held_out(relation)
    groups = [group_of[document] for document in documents[lines[:, 0]].tolist()]
    pairs = [(text[a], text[b]) for a, b in lines.tolist()]

    def of_groups(part: Rows, at_most: int) -> Rows:
        names = {held_groups[place] for place in part}
        places = np.array([i for i, group in enumerate(groups) if group in names], np.int64)
        return places[evenly(len(places), at_most)]

    validation, test = split_groups(held_groups)
    parts = of_groups(validation, DEV_PAIRS), of_groups(test, TEST_PAIRS)
    return Pairs.at(pairs, groups, *parts, "groups of documents", relation)


def _whole(structure: Structure, sizes: Rows, repeats: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Extend a mask of repeated lines to whole passages of which half or more is repeated.

    Otherwise only the part is marked, since any passage may begin or end with boilerplate.
    """
    first = np.flatnonzero(structure.roles == Role.FIRST)
    passage, rest = first - 1, first + 1
    whole = repeats[passage]
    for part in (first, rest):
        whole |= repeats[part] & (2 * sizes[part] >= sizes[passage])
    found = repeats.copy()
    for lines in (passage, first, rest):
        found[lines] |= whole
    return found


def _distinctive(structure: Structure, text: Lines) -> NDArray[np.bool_]:
    distinctive = np.ones(len(structure.roles), dtype=bool)
    for role in (Role.TITLE, Role.HEADING, Role.FIRST):
        lines = np.flatnonzero(structure.roles == role)
        names = (name_hash(" ".join(compared_words(text[line]))) for line in lines.tolist())
        keys = np.fromiter(names, np.uint64, len(lines))
        documents = structure.documents[lines].astype(np.uint64)
        of_documents = np.unique(np.stack([keys, documents], 1), axis=0)[:, 0]
        known, count = np.unique(of_documents, return_counts=True)
        distinctive[lines] = count[np.searchsorted(known, keys)] == 1
    return distinctive
