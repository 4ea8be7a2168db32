"""The relations of a corpus' documents: which pairs train, and which choose and judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.dedup import Texts, near_duplicates, words
from isospace.corpus.docstrings import DEV_PAIRS, TEST_PAIRS, Pairs
from isospace.corpus.examples import evenly
from isospace.corpus.groups import split_groups
from isospace.corpus.lines import Lines
from isospace.corpus.relations import FIRST_REST, RELATIONS, Role, Rows, Structure
from isospace.corpus.staging import name_hash
from isospace.errors import UserError

JUDGING = ("title-passage", "heading-section", FIRST_REST, "neighbours")
"""The first of these that has `FEW_PAIRS` held-out pairs judges: what is most like a search."""
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
    def of(
        cls,
        structure: Structure,
        text: Lines,
        held: Rows,
        train: Rows,
        barred: NDArray[np.bool_],
        scratch: Path,
    ) -> tuple[Related, Rows]:
        """The pairs of these lines, and what may be trained on as one text.

        Args:
            structure: of the lines.
            text: the lines.
            held: passages that are held out.
            train: those to train on.
            barred: (line,) of `barred_lines`.
            scratch: a folder for temporary files.

        Returns:
            The pairs; (line,) a number that lines to train on share where they (nearly) repeat each
            other.
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
        """(pair, 2) lines to train on."""
        return self._pairs(relation, self.trained)

    def held_out(self, relation: str) -> Rows:
        """(pair, 2) lines of held-out documents."""
        return self._pairs(relation, self.held)

    def _pairs(self, relation: str, allowed: NDArray[np.bool_]) -> Rows:
        pairs = RELATIONS[relation](self.structure)
        return pairs[(self.telling & allowed)[pairs].all(axis=1)]

    def answers(self, relation: str, text: Lines) -> dict[str, Rows]:
        """What must not count against a right text while that is ranked, by the text that looks.

        Returns:
            First text of each held-out pair -> the lines that belong to it, all of them whichever
            pairs are measured, and its own.
        """
        pairs = self.held_out(relation)
        if relation == "neighbours":  # the one before is as right as the one behind
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
        found: dict[str, set[int]] = {}
        for first, second in pairs.tolist():
            found.setdefault(text[first], {first}).add(second)
        return {query: np.array(sorted(lines)) for query, lines in found.items()}

    def sought(self, relation: str, passages: Rows) -> Rows:
        """The lines that stand for passages, (passage,), where second texts of pairs are sought.

        Rests are sought among rests: a passage has its first sentence only where it has no other.
        """
        if relation != FIRST_REST:
            return passages
        with_rest = np.zeros(len(self.structure.roles) + 2, dtype=bool)
        with_rest[np.flatnonzero(self.structure.roles == Role.FIRST) - 1] = True
        lines: Rows = passages + 2 * with_rest[passages]
        return lines

    def judging(self, wanted: str | None) -> str | None:
        """The relation whose held-out pairs choose and judge; `None` where none has enough.

        Args:
            wanted: its name; default: the first of `JUDGING` with `FEW_PAIRS`.

        Raises:
            UserError: the documents have no such pairs.
        """
        if wanted is not None:
            if len(self.held_out(wanted)) < 2:
                counts = self.counts(held=True).items()
                have = ", ".join(f"{n:,} {name}" for name, n in counts if n)
                raise UserError(
                    f"`test_relation` {wanted}: the held-out documents have no such pairs; they "
                    f"have {have or 'none of any relation'}"
                )
            return wanted
        return next((name for name in JUDGING if len(self.held_out(name)) >= FEW_PAIRS), None)

    def counts(self, held: bool = False) -> dict[str, int]:
        """Relation -> how many pairs there are to train on, or of held-out documents."""
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
        """What `save` wrote; `None` where the texts of a corpus have no structure."""
        if not (folder / "structure.npz").exists():
            return None
        with np.load(folder / "structure.npz") as parts:
            names = ("roles", "documents", "sections", "links")
            structure = Structure(*(parts[name] for name in names))
            return cls(structure, *parts["flags"])


def barred_lines(
    structure: Structure, text: Texts, lines: Rows, references: int, scratch: Path
) -> NDArray[np.bool_]:
    """Which lines beside the passages (nearly) repeat a text that must not be trained on, (line,).

    Args:
        structure: of the lines; none of its passages is such a repetition.
        text: the texts that must not be trained on, then the lines of documents.
        lines: (line,) where each line is in `text`.
        references: how many texts must not be trained on.
        scratch: a folder for temporary files.
    """
    barred = np.zeros(len(lines), dtype=bool)
    if references:
        others = np.flatnonzero(structure.roles != Role.PASSAGE)
        rows = np.concatenate([np.arange(references), lines[others]])
        earlier = near_duplicates(text, rows, references, scratch)[references:]
        barred[others] = (earlier >= 0) & (earlier < references)
    return barred


def judging_pairs(
    related: Related, relation: str, text: Lines, held: Rows, held_groups: Sequence[str]
) -> Pairs:
    """The held-out pairs of a relation, split as the held-out passages are.

    A pair of two documents, one of which chooses and the other judges, does neither.

    Args:
        related: of the corpus.
        relation: its name.
        text: the lines.
        held: the held-out passages.
        held_groups: the group of each.
    """
    documents = related.structure.documents
    group_of = dict(zip(documents[held].tolist(), held_groups, strict=True))
    lines = related.held_out(relation)
    groups = [[group_of[document] for document in pair] for pair in documents[lines].tolist()]
    chooses, judges = split_groups(held_groups)
    choosing, judging = ({held_groups[place] for place in part} for part in (chooses, judges))
    dev = [i for i, pair in enumerate(groups) if choosing.issuperset(pair)]
    test = [i for i, pair in enumerate(groups) if judging.issuperset(pair)]
    pairs = [(text[a], text[b]) for a, b in lines.tolist()]
    unit = "groups of documents"
    dev, test = (
        [places[i] for i in evenly(len(places), at_most)]
        for places, at_most in ((dev, DEV_PAIRS), (test, TEST_PAIRS))
    )
    parts = np.array(dev, np.int64), np.array(test, np.int64)
    return Pairs.of(pairs, [group for group, _ in groups], *parts, unit, relation)


def _whole(structure: Structure, sizes: Rows, repeats: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """These lines, and all lines of a passage that is one of them or half of which is, (line,).

    A passage that says more than a repeated sentence stays without it, as boilerplate may begin
    or end any passage.

    Args:
        structure: of the lines.
        sizes: (line,) bytes of each.
        repeats: (line,) whether it is one of these.
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
