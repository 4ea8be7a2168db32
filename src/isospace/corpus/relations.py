"""Which texts of a document belong together: relations that nobody had to label.

All here is about positions: a corpus has a line for each title, heading and passage, for the first
sentence and the rest of each passage of several sentences, and for the summary and the next
paragraph of a docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.dedup import Texts, near_duplicates, words
from isospace.corpus.examples import evenly
from isospace.corpus.groups import DEV_PAIRS, TEST_PAIRS, Pairs, name_hash, split_groups
from isospace.corpus.lines import Lines
from isospace.errors import UserError

Rows = NDArray[np.int64]

SUMMARY_NEXT = "summary-next"
"""The relation of `Docstring.pair`."""


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
        """Return the lines that are passages, ascending."""
        return np.flatnonzero(self.roles == Role.PASSAGE)

    def around(self, passages: Rows) -> Rows:
        """Return the lines of passages, of their parts, and of titles, headings and summaries."""
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
        """Return the structure of these lines alone; documents keep their numbers."""
        return replace(
            self,
            roles=self.roles[lines],
            documents=self.documents[lines],
            sections=self.sections[lines],
        )


def _under(structure: Structure, role: Role, places: Rows) -> Rows:
    """Pair each passage with the line of this role that has the same place, (pair, 2)."""
    above = np.full(int(places.max(initial=-1)) + 1, -1)
    lines = np.flatnonzero(structure.roles == role)
    above[places[lines]] = lines
    passages = structure.passages
    pairs = np.stack([above[places[passages]], passages], axis=1)
    found: Rows = pairs[pairs[:, 0] >= 0]
    return found


def title_passage(structure: Structure) -> Rows:
    """Pair the title of a document with each of its passages."""
    return _under(structure, Role.TITLE, structure.documents)


def heading_section(structure: Structure) -> Rows:
    """Pair a heading with each passage directly under it."""
    return _under(structure, Role.HEADING, structure.sections)


def first_rest(structure: Structure) -> Rows:
    """Pair the first sentence of a passage with the rest of it."""
    first = np.flatnonzero(structure.roles == Role.FIRST)
    return np.stack([first, first + 1], axis=1)


def summary_next(structure: Structure) -> Rows:
    """Pair the summary of a docstring with the paragraph after it."""
    summary = np.flatnonzero(structure.roles == Role.SUMMARY)
    return np.stack([summary, summary + 1], axis=1)


def neighbours(structure: Structure) -> Rows:
    """Pair two passages of a document that follow each other."""
    passages = structure.passages
    pairs = np.stack([passages[:-1], passages[1:]], axis=1)
    found: Rows = pairs[structure.documents[pairs[:, 0]] == structure.documents[pairs[:, 1]]]
    return found


def crops(structure: Structure) -> Rows:
    """Pair a passage of several sentences with itself, to draw crops (Izacard et al. 2022)."""
    passages = np.flatnonzero(structure.roles == Role.FIRST) - 1
    return np.stack([passages, passages], axis=1)


def links(structure: Structure) -> Rows:
    """Pair the first passage of a document with that of a document which it links."""
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


EVALUATION_RELATIONS = ("title-passage", "heading-section", FIRST_REST, "neighbours")
"""The first with `FEW_PAIRS` held-out pairs gives the validation and test pairs."""
FEW_PAIRS = 100


@dataclass(frozen=True)
class Related:
    """Pairs of lines of a corpus that belong together.

    Attributes:
        structure: of the lines.
        telling: (line,) whether it can be part of a pair: not so a title, a heading or a first
            sentence that several documents have, such as "Introduction", and no line that (nearly)
            repeats a text which must not be trained on.
        held: (line,) whether its document is held out.
        trained: (line,) whether it may be trained on: its document is not held out nor related to
            what is, and no line of a held-out document nor a text which must not be trained on
            (nearly) repeats it, whatever the two are to their documents. A passage that does, or
            half of which does, takes its parts along.
    """

    structure: Structure
    telling: NDArray[np.bool_]
    held: NDArray[np.bool_]
    trained: NDArray[np.bool_]

    @classmethod
    def build(
        cls,
        structure: Structure,
        text: Lines,
        held: Rows,
        train: Rows,
        barred: NDArray[np.bool_],
        scratch: Path,
    ) -> tuple[Related, Rows]:
        """Find the pairs of these lines, and the lines that count as one text in training.

        `barred` is of `barred_lines`. The second result is (line,) a number that lines to train on
        share where they (nearly) repeat each other.
        """
        size = int(structure.documents.max(initial=-1)) + 1
        of_held, of_train = np.zeros((2, size), dtype=bool)
        of_held[structure.documents[held]] = True
        of_train[structure.documents[train]] = True
        is_held, trained = of_held[structure.documents], of_train[structure.documents]
        judged, others = np.flatnonzero(is_held), np.flatnonzero(trained)
        rows = np.concatenate([judged, others])
        earlier = near_duplicates(text, rows, len(judged), scratch)[len(judged) :]
        repeats = np.zeros(len(trained), dtype=bool)
        repeats[others] = (earlier >= 0) & (earlier < len(judged))
        trained &= ~_whole(structure, np.diff(text.offsets), repeats | barred)
        same = np.arange(len(trained))
        again = np.flatnonzero(earlier >= len(judged))
        same[others[again]] = rows[earlier[again]]
        while (same != same[same]).any():  # down to the first of all that repeat it
            same = same[same]
        return cls(structure, _telling(structure, text) & ~barred, is_held, trained), same

    def to_train(self, relation: str) -> Rows:
        """Return the (pair, 2) lines to train on."""
        return self._pairs(relation, self.trained)

    def held_out(self, relation: str) -> Rows:
        """Return the (pair, 2) lines of held-out documents."""
        return self._pairs(relation, self.held)

    def _pairs(self, relation: str, allowed: NDArray[np.bool_]) -> Rows:
        pairs = RELATIONS[relation](self.structure)
        return pairs[(self.telling & allowed)[pairs].all(axis=1)]

    def answers(self, relation: str, text: Lines) -> dict[str, Rows]:
        """Return for each query the lines that must not count against its right text.

        They are all lines that belong to the first text of a held-out pair, whichever pairs are
        measured, and its own.
        """
        pairs = self.held_out(relation)
        if relation == "neighbours":  # the one before is as right as the one behind
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
        found: dict[str, set[int]] = {}
        for first, second in pairs.tolist():
            found.setdefault(text[first], {first}).add(second)
        return {query: np.array(sorted(lines)) for query, lines in found.items()}

    def sought(self, relation: str, passages: Rows) -> Rows:
        """Return the lines that stand for passages, (passage,), when second texts are sought.

        Rests are sought among rests: a passage has its first sentence only where it has no other.
        """
        if relation != FIRST_REST:
            return passages
        with_rest = np.zeros(len(self.structure.roles) + 2, dtype=bool)
        with_rest[np.flatnonzero(self.structure.roles == Role.FIRST) - 1] = True
        lines: Rows = passages + 2 * with_rest[passages]
        return lines

    def evaluation_relation(self, wanted: str | None) -> str | None:
        """Return the relation that gives validation and test pairs; `None` if none has enough.

        Raises:
            UserError: the documents have no such pairs.
        """
        if wanted is not None:
            if len(self.held_out(wanted)) < 2:
                counts = self.counts(held=True).items()
                have = ", ".join(f"{n:,} {name}" for name, n in counts if n)
                raise UserError(
                    f"`test_relation` {wanted}: the held-out documents have no pairs of this "
                    f"relation. They have {have or 'no pairs of any relation'}"
                )
            return wanted
        return next(
            (name for name in EVALUATION_RELATIONS if len(self.held_out(name)) >= FEW_PAIRS), None
        )

    def counts(self, held: bool = False) -> dict[str, int]:
        """Count the pairs of each relation, to train on or of held-out documents."""
        allowed = self.held if held else self.trained
        return {name: len(self._pairs(name, allowed)) for name in RELATIONS}

    def save(self, folder: Path) -> None:
        """Write it to a folder that `load` reads."""
        found = self.structure
        np.savez(
            folder / "structure.npz",
            roles=found.roles,
            documents=found.documents,
            sections=found.sections,
            links=found.links,
            flags=np.stack([self.telling, self.held, self.trained]),
        )

    @classmethod
    def load(cls, folder: Path) -> Related | None:
        """Read what `save` wrote; `None` where the texts of a corpus have no structure."""
        if not (folder / "structure.npz").exists():
            return None
        with np.load(folder / "structure.npz") as parts:
            names = ("roles", "documents", "sections", "links")
            structure = Structure(*(parts[name] for name in names))
            return cls(structure, *parts["flags"])


def barred_lines(
    structure: Structure, text: Texts, lines: Rows, references: int, scratch: Path
) -> NDArray[np.bool_]:
    """Tell which lines beside passages (nearly) repeat a text not to train on, (line,).

    `text` begins with `references` texts that must not be trained on; line i of the documents is
    its line `lines[i]`.
    """
    barred = np.zeros(len(lines), dtype=bool)
    if references:
        others = np.flatnonzero(structure.roles != Role.PASSAGE)
        rows = np.concatenate([np.arange(references), lines[others]])
        earlier = near_duplicates(text, rows, references, scratch)[references:]
        barred[others] = (earlier >= 0) & (earlier < references)
    return barred


def evaluation_pairs(
    related: Related, relation: str, text: Lines, held: Rows, held_groups: Sequence[str]
) -> Pairs:
    """Split the held-out pairs of a relation as the held-out passages are split.

    A pair of a validation document and a test document is left out.
    """
    documents = related.structure.documents
    group_of = dict(zip(documents[held].tolist(), held_groups, strict=True))
    lines = related.held_out(relation)
    groups = [[group_of[document] for document in pair] for pair in documents[lines].tolist()]
    parts = split_groups(held_groups)
    validation, test_groups = ({held_groups[place] for place in part} for part in parts)
    dev = [i for i, pair in enumerate(groups) if validation.issuperset(pair)]
    test = [i for i, pair in enumerate(groups) if test_groups.issuperset(pair)]
    pairs = [(text[a], text[b]) for a, b in lines.tolist()]
    unit = "groups of documents"
    dev, test = (
        [places[i] for i in evenly(len(places), at_most)]
        for places, at_most in ((dev, DEV_PAIRS), (test, TEST_PAIRS))
    )
    split = np.array(dev, np.int64), np.array(test, np.int64)
    return Pairs.at(pairs, [group for group, _ in groups], *split, unit, relation)


def _whole(structure: Structure, sizes: Rows, repeats: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Extend lines by all lines of a passage of which they are half or more, (line,).

    A passage that says more than a repeated sentence stays without it, as boilerplate may begin
    or end any passage.
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


def _telling(structure: Structure, text: Lines) -> NDArray[np.bool_]:
    telling = np.ones(len(structure.roles), dtype=bool)
    for role in (Role.TITLE, Role.HEADING, Role.FIRST):
        lines = np.flatnonzero(structure.roles == role)
        names = (name_hash(" ".join(words(text[line]))) for line in lines.tolist())
        keys = np.fromiter(names, np.uint64, len(lines))
        documents = structure.documents[lines].astype(np.uint64)
        of_documents = np.unique(np.stack([keys, documents], 1), axis=0)[:, 0]
        known, count = np.unique(of_documents, return_counts=True)
        telling[lines] = count[np.searchsorted(known, keys)] == 1
    return telling
