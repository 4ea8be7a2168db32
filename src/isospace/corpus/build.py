"""Build the files that `corpus.Corpus` reads, from documents or from rows of several texts.

An example is a passage, or a row of texts: anchor, positive and perhaps a hard negative, which are
consecutive lines. Examples are selected by positions and hashes.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.config import CorpusConfig
from isospace.corpus.docstrings import (
    DOCSTRINGS,
    SUMMARY_NEXT,
    docstring_sentences,
    split_pairs,
    without_references,
)
from isospace.corpus.formats import Document
from isospace.corpus.groups import (
    Pairs,
    Rows,
    Texts,
    components,
    cut,
    first_equal,
    group_key,
    group_names,
    key_groups,
    linked,
    name_hash,
    near_clusters,
    near_duplicates,
    near_references,
    split_groups,
    unit_of,
    whole_groups,
)
from isospace.corpus.lines import Lines, clean, folded, write_lines
from isospace.corpus.passages import LONGEST_WORD, document_sentences, language_of, passages_of
from isospace.corpus.reading import columns, own_rows, read_documents
from isospace.corpus.relations import (
    Related,
    Role,
    Structure,
    barred_lines,
    evaluation_pairs,
)
from isospace.corpus.sources import Source, listed
from isospace.errors import UserError
from isospace.system.files import hash_of
from isospace.system.unicode import without_surrogates

logger = logging.getLogger(__name__)


class _Staging:
    """Converter from documents to lines that records role, document and section of each line."""

    def __init__(self, config: CorpusConfig, counts: dict[str, int]) -> None:
        self._config, self._counts = config, counts
        self._roles, self._documents, self._sections = array("b"), array("q"), array("q")
        self._groups = array("Q")
        self._section = -1
        self.structured = 0
        """Number of documents with several passages, a title or a summary."""

    def lines(self, documents: Iterable[Document]) -> Iterator[str]:
        """Yield the lines of all documents that have a usable passage."""
        for document in documents:
            parts = list(self._passages(document))
            if not parts:
                continue
            self._groups.append(name_hash(document.group))
            title, pair = clean(document.title), document.summary_next
            structured = bool(title) or len(parts) > 1 or pair is not None
            self.structured += structured
            if title:
                yield self._line(Role.TITLE, title)
            if pair is not None:
                yield self._line(Role.SUMMARY, clean(pair[0]))
                yield self._line(Role.NEXT, clean(pair[1]))
            for section, passages in groupby(parts, key=itemgetter(0)):
                self._section += 1
                if heading := clean(document.sections[section].heading):
                    yield self._line(Role.HEADING, heading)
                for _, passage in passages:
                    yield self._line(Role.PASSAGE, passage)
                    if structured:
                        yield from self._two_parts(passage, document.language)

    def _passages(self, document: Document) -> Iterator[tuple[int, str]]:
        """Yield (section, passage) for passages of a usable length; count the other passages."""
        counts, size = self._counts, self._config.passage_words
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

    def _two_parts(self, passage: str, language: str) -> Iterator[str]:
        """Yield the first sentence and the rest of a passage, if both are long enough."""
        first, *others = document_sentences(passage, language or language_of(passage))
        rest = folded("\n".join(others))
        if min(len(first), len(rest)) >= max(1, self._config.min_chars):
            yield self._line(Role.FIRST, first)
            yield self._line(Role.REST, rest)

    def _line(self, role: Role, text: str) -> str:
        self._roles.append(role)
        self._documents.append(len(self._groups) - 1)
        self._sections.append(self._section)
        return text

    def structure(self) -> tuple[Structure, NDArray[np.uint64]]:
        """Return the structure of all lines, and a key of each document's group, (document,)."""
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


def alike_documents(documents: Rows, repeats: Rows, passages: Rows) -> Rows:
    """Pair documents that share half or more of the passages of the shorter one, (pair, 2).

    `documents` has the document of each line, `repeats` pairs of lines that (nearly) repeat.

    >>> documents = np.array([0, 0, 1, 1, 2])
    >>> alike_documents(documents, np.array([[2, 0], [4, 1]]), np.arange(5)).tolist()
    [[0, 1], [0, 2]]
    """
    pairs = np.sort(documents[repeats].reshape(-1, 2), axis=1)
    pairs, shared = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0, return_counts=True)
    sizes = np.bincount(documents[passages])
    found: Rows = pairs[2 * shared >= sizes[pairs].min(axis=1)]
    return found


PARTS = 400
"""Largest number of parts to cut a text into; a tenth of the parts is held out."""
SMALLEST = 5
"""Least number of passages in a part."""


def cut_long(structure: Structure, alone: NDArray[np.bool_]) -> tuple[Structure, Rows]:
    """Cut long documents into parts, if long documents are more than half of the text.

    A document is long if it has more than a tenth of all passages: it could not be held out. A part
    ends at the end of a section, or inside a section with twice the passages of a part. Only
    documents that are `alone` in their group are cut. The second result is the original document of
    each part, (part,), ascending.
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


def select_passages(
    text: Texts, hashes: NDArray[np.uint64], references: int, passages: Rows, near: bool
) -> tuple[Rows, Rows, dict[str, int]]:
    """Return the lines of the passages to keep, ascending, without (`near`) repetitions.

    `text` begins with `references` texts that must not be trained on. The second result is
    (repetition, 2): the lines of a passage that was left out and of an earlier passage that it
    repeats. The third counts what was left out.
    """
    rows = np.concatenate([np.arange(references), passages])
    first = first_equal(hashes[rows])
    distinct = np.flatnonzero(first == np.arange(len(first)))
    copies = np.flatnonzero(first != np.arange(len(first)))
    copied = copies[first[copies] >= references]
    earlier = np.full(len(distinct), -1)
    if near or references:
        earlier = near_duplicates(text, rows[distinct], references)
    candidate = distinct >= references
    leaked = candidate & (earlier >= 0) & (earlier < references)
    repeated = candidate & (earlier >= references) & near
    counts = {
        "exact duplicates": len(copied),
        "near duplicates": int(repeated.sum()),
        "evaluation pairs": len(copies) - len(copied) + int(leaked.sum()),
    }
    repeats = np.concatenate(
        [
            np.stack([copied, first[copied]], axis=1),
            np.stack([distinct[repeated], distinct[earlier[repeated]]], axis=1),
        ]
    )
    return rows[distinct[candidate & ~leaked & ~repeated]], rows[repeats], counts


def select_examples(
    text: Texts, hashes: NDArray[np.uint64], references: int, texts: int
) -> tuple[Rows, dict[str, int]]:
    """Return the lines of the examples to keep, ascending, and counts of what was left out.

    Each example has `texts` lines. Of equal examples the first is kept. Nearly equal examples are
    all kept, because a text may occur in several, such as one anchor with several positives. An
    example is left out if one of its texts (nearly) repeats one of the first `references` texts.
    """
    first = first_equal(hashes)
    leaked = np.arange(len(first)) < references
    if references:
        distinct = np.flatnonzero(first == np.arange(len(first)))
        leaked[distinct[near_references(text, distinct, references)]] = True
    examples = first[references:].reshape(-1, texts)
    barred = np.asarray(leaked[examples].any(axis=1))
    distinct_examples = np.sort(np.unique(examples, axis=0, return_index=True)[1])
    chosen = distinct_examples[~barred[distinct_examples]]
    counts = {
        "exact duplicates": len(examples) - int(barred.sum()) - len(chosen),
        "near duplicates": 0,
        "evaluation pairs": int(barred.sum()),
    }
    return (references + texts * chosen[:, None] + np.arange(texts)).ravel(), counts


def same_texts(text: Texts, lines: Rows, hashes: NDArray[np.uint64]) -> Rows:
    """Return a number for each line, (line,), equal for lines that (nearly) repeat each other."""
    # In the order of the hashes, so that the result does not depend on the order of the lines.
    _, distinct, place = np.unique(hashes, return_index=True, return_inverse=True)
    return near_clusters(text, lines[distinct])[place]


def hold_out(
    hashes: NDArray[np.uint64],
    texts: Rows,
    groups: Rows,
    count: int,
    positive: NDArray[np.bool_] | None = None,
    largest: int | None = None,
    sides: slice = slice(2),
) -> tuple[Rows, Rows]:
    """Return the examples to hold out and the examples to train on, both ascending.

    Whole groups are held out, smallest hashes first: a random sample that depends neither on a
    random state nor on the order of the examples. No text is anchor or positive of two held-out
    examples, since a query with two right answers measures nothing. The rest of a held-out group is
    not trained on, and neither is any other example with a held-out text. Examples are not held out
    if more than one in ten of all examples would be lost to training in this way.

    `hashes` and `texts` are (example, text); the numbers of `texts` are equal for texts that
    (nearly) repeat each other. `groups` is (example,), from 0 on. At most `count` examples are held
    out, only `positive` ones, (example,), and no group of more than `largest` (default: `count`).
    `sides` are the texts of an example that are held out.

    >>> hashes = np.array([[1, 9], [5, 6], [7, 9], [1, 8]], dtype=np.uint64)
    >>> held, train = hold_out(hashes, hashes.astype(np.int64), np.array([0, 1, 2, 0]), 2)
    >>> held.tolist(), train.tolist()
    ([3], [1, 2])
    """
    others = _in_other_groups(texts, groups)[:, sides].sum(axis=1)
    room = len(texts) // 10
    order = np.lexsort([*hashes.T[::-1], *hashes[:, sides].T[::-1]])
    order = order[others[order] <= room]
    if positive is not None:
        order = order[positive[order]]
    first = np.unique(groups[order], return_index=True)[1]
    in_held_group = whole_groups(groups, groups[order][np.sort(first)], count, largest)
    held: list[int] = []
    held_texts: set[int] = set()
    for example in order[in_held_group[order]]:
        own = texts[example, sides].tolist()
        if others[example] <= room and held_texts.isdisjoint(own):
            held.append(int(example))
            held_texts.update(own)
            room -= int(others[example])
    found = np.sort(np.array(held, dtype=np.int64))
    left_out = np.isin(groups, groups[found])
    left_out |= np.isin(texts, np.fromiter(held_texts, np.int64)).any(axis=1)
    return found, np.flatnonzero(~left_out)


def _in_other_groups(texts: Rows, groups: Rows) -> Rows:
    """Count how often each text is in an example of another group, (example, text).

    >>> _in_other_groups(np.array([[0, 1], [0, 2], [3, 1]]), np.array([0, 0, 1])).tolist()
    [[0, 1], [0, 0], [0, 1]]
    """
    size = int(texts.max(initial=0)) + 1
    within = groups[:, None] * size + texts
    _, place, counts = np.unique(within, return_inverse=True, return_counts=True)
    inside: Rows = counts[place].reshape(texts.shape)
    found: Rows = np.bincount(texts.ravel(), minlength=size)[texts] - inside
    return found


ENTAILMENT = "entailment"
"""The label of texts that belong together, as in corpora for natural language inference."""


def label_of(value: Any, place: str, column: str) -> str:
    """Return a cell of the label column as text, or refuse it; `place` names file and line."""
    label = without_surrogates(str(value).strip()) if isinstance(value, str | int) else ""
    if not label:
        raise UserError(
            f'{place}: "{column}" is {value!r}, expected a label, text or a whole number. Remove '
            "the row, or name another column with `label_column`."
        )
    return sys.intern(label)  # rows share a few texts


def belonging(classes: Sequence[str], labels: Rows) -> NDArray[np.bool_] | None:
    """Return (row,) true if a row's texts belong together; `None` if no class says so.

    >>> belonging(["contradiction", "entailment"], np.array([1, 0, 1])).tolist()
    [True, False, True]
    """
    # Corpora on the Hub write 0, 1 and 2 for entailment, neutral and contradiction.
    wanted = "0" if {"0", "1", "2"}.issubset(classes) else ENTAILMENT
    if wanted not in classes:
        return None
    found: NDArray[np.bool_] = labels == classes.index(wanted)
    return found


_COUNTS = ("read", "empty", "too short", "too long")

HELD_OUT_GROUPS = 40
"""Least number of groups of documents to hold out, unless all documents are long."""

FEWEST_PAIRS = 2
"""Least number of held-out pairs: with fewer, a positive has no alternatives."""


def _warn_of_unreadable(unreadable: Mapping[str, UserError]) -> None:
    """Log the files that were not read, one line for each reason; details are the first file's."""
    found: dict[str, tuple[str, list[str]]] = {}
    for name, error in unreadable.items():
        reason = str(error).removeprefix(name)
        found.setdefault(reason.partition(" (")[0], (reason, []))[1].append(name)
    for reason, files in found.values():
        logger.warning("not read: %s%s", listed(files, most=3), reason)


@dataclass
class Builder:
    """The build of one corpus: what is read and how, and what happens on the way."""

    folder: Path
    config: CorpusConfig
    sources: list[Source]
    excluded: list[str]
    """Texts that must not be trained on."""
    unreadable: dict[str, UserError]
    """Name -> error of the files that are left out; reading adds documents."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))

    def build(self) -> None:
        """Write all files of the corpus into the folder."""
        if self.config.columns:
            self._of_examples()
        else:
            self._of_documents()

    def _keep(self, text: Lines, rows: Rows) -> tuple[Lines, str]:
        """Write the lines of the corpus; return them and their hash."""
        with (self.folder / "texts.txt").open("w+b") as file:
            kept, _, digest = write_lines((text[row] for row in rows), file)
        np.save(self.folder / "offsets.npy", kept.offsets)
        return kept, digest

    def _finish(
        self,
        count: int,
        content: tuple[Any, ...],
        pairs: Pairs,
        held_groups: list[str],
        classes: Sequence[str] = (),
        **arrays: Any,
    ) -> None:
        """Write what the corpus has besides its lines.

        `count` is the number of passages or examples, including unused ones; `content` identifies
        the corpus in its digest; `arrays` are `held_out`, `train` and other rows of `Corpus`.
        """
        if self.unreadable:
            self.counts["unreadable files"] = len(self.unreadable)
            _warn_of_unreadable(self.unreadable)
        held, train = len(arrays["held_out"]), len(arrays["train"])
        self.counts |= {
            "related to what is held out": count - held - train,
            "held out": held,
            "for training": train,
        }
        np.savez(self.folder / "arrays.npz", **arrays)
        names = {"txt": "txt (lines)", "text": "txt (paragraphs)"}
        read = (one.format for one in self.sources if one.name not in self.unreadable)
        formats = Counter(names.get(format, format) for format in read)
        about = {
            "counts": self.counts,
            "files": dict(formats.most_common()),
            "digest": hash_of(repr(content).encode()),
            "pairs": asdict(pairs),
            "group": self.config.group,
            "columns": self.config.columns,
            "held_groups": held_groups,
            "classes": classes,
        }
        (self.folder / "about.json").write_text(json.dumps(about), "utf-8")

    def _references(self, of_pairs: Sequence[str] = ()) -> list[str]:
        """Return the clean texts that must not be trained on, and their sentences.

        They are `excluded`, in any language, and those `of_pairs` of docstrings.
        """
        texts = [*self.excluded, *of_pairs]
        sentences = (document_sentences(text, language_of(text)) for text in self.excluded)
        parts = chain(texts, *sentences, *map(docstring_sentences, texts))
        return [text for text in dict.fromkeys(map(clean, parts)) if text]

    def _documents(self) -> tuple[Pairs, list[str], Iterable[Document]]:
        """Return the pairs of docstrings, the texts not to train on, and the documents."""
        config, counts = self.config, self.counts
        first = sum(source.format == DOCSTRINGS for source in self.sources)
        docstrings = list(read_documents(self.sources[:first], config, counts, self.unreadable))
        others = read_documents(self.sources[first:], config, counts, self.unreadable)
        if not docstrings:
            return Pairs(), self._references(), others
        pairs = Pairs()
        if config.test_relation in (None, SUMMARY_NEXT):
            natural = [(one.group, one.summary_next) for one in docstrings if one.summary_next]
            pairs = split_pairs(natural, self.excluded)
        references = self._references([*chain.from_iterable([*pairs.dev, *pairs.test])])
        prose = without_references(docstrings, references, counts)
        return pairs, references, chain(prose, others)

    def _of_documents(self) -> None:
        """Build from documents: keep each passage once, with the titles and headings above it."""
        config, folder = self.config, self.folder
        pairs, references, documents = self._documents()
        count = len(references)
        staging = _Staging(config, self.counts)
        with tempfile.TemporaryFile(dir=folder) as staged:
            text, hashes, _ = write_lines(chain(references, staging.lines(documents)), staged)
            structure, keys = staging.structure()
            passages = count + structure.passages
            near = config.near_duplicates
            kept, repeats, counts = select_passages(text, hashes, count, passages, near)
            self.counts |= counts
            alike = alike_documents(structure.documents, repeats - count, structure.passages)
            groups = linked(key_groups(keys), alike)[structure.documents[kept - count]]
            amount = min(config.held_out, len(kept) // 10)
            same = kept if near or not amount else same_texts(text, kept, hashes[kept])
            if not near:  # equal passages were kept: they belong together
                groups = components(np.stack([groups, len(kept) + groups.max(initial=0) + same], 1))
            largest = _largest_group(groups, amount) if staging.structured else None
            held, train = hold_out(
                hashes[kept][:, None], same[:, None], groups, amount, largest=largest
            )
            lines = count + structure.around(kept - count)
            final, digest = self._keep(text, lines)
            places = np.searchsorted(lines, kept)
            held_groups = group_names(groups[held], hashes[kept][held, None])
        held, train, same, content = places[held], places[train], kept, (digest, pairs)
        arrays: dict[str, Any] = {}
        if staging.structured:
            self.counts["documents"] = staging.structured
            found = structure.take(lines - count)
            barred = barred_lines(found, text, lines, count)
            related, nearly = Related.build(found, final, held, train, barred)
            same = nearly if near else first_equal(hashes[lines])
            train = train[related.trained[train]]
            arrays = related.arrays() | {"groups": groups}
            relation = None if pairs.test else related.evaluation_relation(config.test_relation)
            if relation is not None:
                pairs = evaluation_pairs(related, relation, final, held, held_groups)
        arrays |= {"held_out": held, "train": train, "same": same}
        self._finish(len(kept), content, pairs, held_groups, **arrays)

    def _of_examples(self) -> None:
        """Build from rows of several texts; each row is an example on consecutive lines."""
        config, folder = self.config, self.folder
        keys = array("Q")
        references = self._references()
        labels: list[str] = []
        width = len(config.columns)
        with tempfile.TemporaryFile(dir=folder) as staged:
            usable = self._usable(keys, labels)
            text, hashes, _ = write_lines(chain(references, usable), staged)
            lines, counts = select_examples(text, hashes, len(references), width)
            self.counts |= counts
            _, digest = self._keep(text, lines)
            examples = hashes[lines].reshape(-1, width)
            count = min(config.held_out, len(examples) // 10)
            same = same_texts(text, lines, hashes[lines]).reshape(examples.shape)
            rows_kept = (lines[::width] - len(references)) // width
            if config.group is None:
                groups = components(same[:, :2])  # a hard negative may come from anywhere
                # Chains of shared texts can make a group that is too large to hold out.
                groups = cut(groups, same[:, 0], count)
            else:
                groups = key_groups(np.array(keys, dtype=np.uint64)[rows_kept])
            classes: list[str] = []
            positive = None
            arrays: dict[str, Any] = {}
            content: tuple[Any, ...] = (digest,)
            if labels:
                kept = np.array(labels, dtype=object)[rows_kept]
                names, numbers = np.unique(kept, return_inverse=True)
                classes = names.tolist()
                positive = belonging(classes, numbers)
                arrays["labels"] = numbers
                content = (*content, classes, hash_of(numbers.tobytes()))
            held, train = hold_out(examples, same, groups, count, positive)
            in_pairs, side = not labels or positive is not None, 0
            if in_pairs and len(held) < FEWEST_PAIRS:
                # With few answers to many questions, or the reverse, only one side can be held out.
                in_pairs, side = False, int(np.argmax([len(np.unique(same[:, i])) for i in (0, 1)]))
                if config.group is None:
                    groups = np.unique(same[:, side], return_inverse=True)[1]
                sides = slice(side, side + 1)
                held, train = hold_out(examples, same, groups, count, positive, sides=sides)
            held_groups = group_names(groups[held], examples[held])
            pairs = Pairs()
            if in_pairs:
                held_pairs = [(text[i], text[i + 1]) for i in lines[::width][held]]
                unit = unit_of(config.group)
                pairs = Pairs.at(held_pairs, held_groups, *split_groups(held_groups), unit)
        arrays["same"] = same.ravel() if config.near_duplicates else first_equal(hashes[lines])
        arrays |= {"held_out": held * width + side, "train": train * width}
        self._finish(len(examples), content, pairs, held_groups, classes, **arrays)

    def _usable(self, keys: array[int], labels: list[str]) -> Iterator[str]:
        """Yield the clean texts of rows whose texts all have a usable length; count the other rows.

        `keys` receives a hash of each row's group (0 for no group), and `labels` its label.
        """
        config, counts = self.config, self.counts
        wanted, width = columns(config), len(config.columns)
        for source in self.sources:
            if source.name in self.unreadable:
                continue
            for line, values in own_rows(source, wanted, counts):
                texts = [clean(text or "") for text in values[:width]]
                shortest = min(map(len, texts))
                counts["read"] += 1
                if not shortest:
                    counts["empty"] += 1
                elif shortest < config.min_chars:
                    counts["too short"] += 1
                else:
                    if config.group is not None:
                        keys.append(name_hash(group_key(values[width])))
                    if config.label_column is not None:
                        labels.append(
                            label_of(values[-1], f"{source.name}:{line}", config.label_column)
                        )
                    yield from texts


def _largest_group(groups: Rows, amount: int) -> int:
    """Return the largest size of a group to hold out; few long documents are few observations."""
    sizes = np.bincount(groups)
    # Leave out groups of one passage, such as the lines of a txt file.
    usual = int(np.median(sizes[sizes > 1])) if sizes.max(initial=0) > 1 else 1
    return max(2 * usual, amount // HELD_OUT_GROUPS)
