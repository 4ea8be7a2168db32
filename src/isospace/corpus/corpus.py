"""A corpus: clean, deduplicated text on disk, for training and held-out evaluation."""

from __future__ import annotations

import copy
import importlib.metadata
import json
import logging
import shutil
import tempfile
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isospace.config import CorpusConfig
from isospace.corpus.build import FEWEST_PAIRS, Builder
from isospace.corpus.docstrings import DOCSTRINGS, modules_of, read_docstrings
from isospace.corpus.formats import DOCUMENT_FORMATS, MANDOC
from isospace.corpus.groups import Pairs, Rows, evenly, split_groups
from isospace.corpus.lines import Lines
from isospace.corpus.passages import passages_of
from isospace.corpus.reading import columns
from isospace.corpus.records import unreadable
from isospace.corpus.relations import FEW_PAIRS, Related
from isospace.corpus.sources import Source, find_sources, listed, require_columns
from isospace.errors import UserError, number_of
from isospace.system.files import (
    built_once,
    code_hashes,
    hash_of,
    make_in_cache,
    readable_hash,
    remove_stale,
)

logger = logging.getLogger(__name__)

SAMPLE = 500
_CODE = ("corpus", "statistics", "system")
"""Packages of the code that reads, which is part of the cache's key."""
_NO_TEXT = ("corpus", "distractors")
"""Settings that do not change how a text is read, and so are not part of the cache's key."""
_NOT_LEFT_OUT = ("read", "documents", "parts of long documents", "held out", "for training")
"""Counts of a corpus that are not of texts that cleaning left out."""


class Corpus(Lines):
    """Clean texts in file order, for training and held out, read from disk.

    A text is a sentence or a passage of a document. An example of several texts is consecutive
    lines: anchor, positive and hard negative; its position is that of the anchor. Documents also
    have lines for titles, headings and parts of passages (`relations.Role`).

    Attributes:
        counts: what happened to the lines -> number of lines.
        files: format -> number of files, most frequent first.
        digest: a hash of the texts, and of the pairs that were taken from docstrings.
        pairs: natural pairs to evaluate on, never to train on.
        columns: columns of the texts of an example; empty if each text is on its own.
        group: the column that groups rows; `None` if rows are grouped by their texts.
        held_groups: the group of each sentence in `held_out()`.
        validation, test: positions in `held_out()`; both are all items if these are too few to
            split.
        train_rows: (n,) positions of the sentences to train on, ascending.
        same: (line,) a number that training texts share if they repeat each other. Near repetitions
            count too, unless `near_duplicates` is off.
        related: pairs that belong together in documents; `None` for texts without structure.
        groups: (passage,) the group of each passage, from 0 on: its document, or several documents
            that belong together; empty for texts without structure.
        labels: (example,) position of each example's label in `classes`, which are sorted; `None`
            without labels.
    """

    def __init__(self, folder: Path) -> None:
        with (folder / "texts.txt").open("rb") as file:
            # Indexing a plain array over the memory map is faster than indexing np.memmap.
            super().__init__(file, np.asarray(np.load(folder / "offsets.npy", mmap_mode="r")))
        about = json.loads((folder / "about.json").read_text("utf-8"))
        self.counts: dict[str, int] = about["counts"]
        self.files: dict[str, int] = about["files"]
        self.digest: str = about["digest"]
        dev, test = ([(a, b) for a, b in about["pairs"][part]] for part in ("dev", "test"))
        self.pairs = Pairs(**{**about["pairs"], "dev": dev, "test": test})
        self.columns: tuple[str, ...] = tuple(about["columns"])
        self.group: str | None = about["group"]
        self.held_groups: list[str] = about["held_groups"]
        self.validation, self.test = split_groups(self.held_groups)
        self.classes: list[str] = about["classes"]
        with np.load(folder / "arrays.npz") as arrays:
            self._held_rows: Rows = arrays["held_out"]
            self.train_rows: Rows = arrays["train"]
            self.same: Rows = arrays["same"]
            self.labels: Rows | None = arrays["labels"] if self.classes else None
            self.related = Related.from_arrays(arrays)
            self.groups: Rows = np.empty(0, np.int64) if self.related is None else arrays["groups"]

    @property
    def passages(self) -> Rows:
        """Positions of the passages, ascending; all positions if texts have no structure."""
        return np.arange(len(self)) if self.related is None else self.related.structure.passages

    def holding_out(self, held: NDArray[np.bool_], relation: str) -> Corpus:
        """Return a corpus of the same lines that holds out other passages and has no pairs.

        `held` is (passage,), true for the passages of whole groups; `relation` evaluates them.
        """
        assert self.related is not None
        mine, distinctive = self.related, self.related.distinctive
        out, train = self.passages[held], self.passages[~held]
        nothing = np.zeros(len(self), dtype=bool)
        related, same = Related.build(mine.structure, self, out, train, nothing)
        other = copy.copy(self)
        other.related, other.same = replace(related, distinctive=distinctive), same
        other.train_rows = train[related.trained[train]]
        other.counts = self.counts | {
            "related to what is held out": len(train) - len(other.train_rows),
            "held out": len(out),
            "for training": len(other.train_rows),
        }
        other.pairs = Pairs(relation=relation)
        other._held_rows = out
        other.held_groups = [str(group) for group in self.groups[held]]
        other.validation = other.test = np.arange(len(out))
        return other

    def sample(self) -> list[str]:
        """Return evenly spaced passages, to describe the corpus by."""
        passages = self.passages
        return [self[passages[place]] for place in evenly(len(passages), SAMPLE)]

    @property
    def described_pairs(self) -> str:
        """Words on validation and test pairs; with the reason if they are halves of sentences."""
        pairs = self.pairs
        if not pairs.test:
            why = f"no relation of the text has {FEW_PAIRS} held-out pairs"
            if self.columns:
                why = f"fewer than {FEWEST_PAIRS} rows can be held out with both texts"
            return f"halves of held-out sentences: {why}"
        name = pairs.relation or "natural pairs"
        if not pairs.split:
            return f"{name}: {len(pairs.test):,} pairs, which are the validation pairs too"
        return f"{name}: {len(pairs.dev):,} validation pairs, {len(pairs.test):,} test pairs"

    @property
    def summary(self) -> str:
        """The counts in words, such as "5 texts for training, 3 held out; left out: 1 empty"."""
        documents = self.counts.get("documents")
        words = f"{number_of(documents, 'documents')}: " if documents else ""
        words += f"{number_of(self.counts['for training'], 'texts')} for training, "
        words += f"{self.counts['held out']:,} held out"
        left_out = [
            number_of(count, what.removesuffix(" left out"))
            for what, count in sorted(self.counts.items(), key=lambda one: -one[1])
            if count and what not in _NOT_LEFT_OUT
        ]
        return f"{words}; left out: {listed(left_out, most=5)}" if left_out else words

    def held_out(self, places: Rows | None = None) -> list[str]:
        """Return the held-out sentences at `places`, such as `test`; default: all."""
        return [self[row] for row in self.held_rows(places)]

    def held_rows(self, places: Rows | None = None) -> Rows:
        """Return the positions in the corpus of what `held_out` returns."""
        return self._held_rows if places is None else self._held_rows[places]


def load_corpus(config: CorpusConfig, cache: Path, exclude: Iterable[str] = ()) -> Corpus:
    """Read, clean and deduplicate the text, or load the result of an earlier call.

    The corpus leaves out the texts of `exclude` that must not be trained on, such as evaluation
    pairs, their sentences, and near duplicates of both. With such texts, `group` may name a column
    of the pairs alone.

    Raises:
        UserError: the input cannot be read, or no sentence is left.
    """
    if not config.corpus:
        raise UserError(
            "`corpus` is missing. Give a text file, a folder, - for standard input, or docstrings"
        )
    folder = cache / "corpus"
    make_in_cache(folder)
    remove_stale(folder, ".input-*")
    excluded = sorted(set(exclude))
    with tempfile.TemporaryDirectory(prefix=".input-", dir=folder) as spool:
        sources = find_sources(config.corpus, Path(spool), config.encoding, config.layout)
        if config.columns and any(source.has_columns for source in sources):
            # Of a folder, documents such as its README are no rows.
            sources = [one for one in sources if one.has_columns or not one.in_folder]
        _check(config, sources, bool(excluded))
        bad = unreadable(sources, columns(config))
        options = {name: value for name, value in asdict(config).items() if name not in _NO_TEXT}
        inputs = [(one.format, one.compression, one.in_folder, _hash(one)) for one in sources]
        corpus = built_once(
            folder / _key(options, inputs, excluded),
            lambda new: Builder(new, config, sources, excluded, bad).build(),
            Corpus,
        )
    logger.info("corpus: %s", corpus.summary)
    if len(corpus) == 0:
        advice = f"Give texts of {config.min_chars} characters or more (`min_chars`)"
        if "unreadable files" in corpus.counts:
            advice = "Mend or convert the files that cannot be read"
        raise UserError(
            f"{', '.join(config.corpus)}: no text to train on ({corpus.summary}). {advice}."
        )
    if config.group is not None and config.held_out and not corpus.held_groups:
        logger.warning(
            "`group` %s: nothing is held out, because every group is too large. Leave `group` out, "
            "or name groups of at most `held_out` texts and a tenth of all",
            config.group,
        )
    return corpus


def docstring_passages(name: str, words: int | None) -> list[str]:
    """Return every passage of docstrings once, of at most `words` words, for an index or vectors.

    Unlike a corpus, this leaves out no evaluation pairs.
    """
    documents = read_docstrings(name)
    found = (passage for one in documents for _, passage in passages_of(one, words))
    return [*dict.fromkeys(found)]


def _key(*what: object) -> str:
    """Return a hash of what is read, how, and by which code and parsers."""
    return hash_of(repr((code_hashes(*_CODE), parser_versions(), *what)).encode())


def _hash(source: Source) -> str:
    """Return a hash of a file's content, or of all modules with docstrings."""
    if source.format == DOCSTRINGS:
        hashes = [(name, readable_hash(path)) for path, name in modules_of(source.name)]
        return hash_of(repr(hashes).encode())
    return readable_hash(source.path)


def _check(config: CorpusConfig, sources: list[Source], own_pairs: bool) -> None:
    """Raise an error if a setting needs columns that the texts or the user's `own_pairs` lack."""
    if not own_pairs:
        for setting in ("title_column", "document_column"):
            require_columns(sources, config.corpus, setting, getattr(config, setting))
    if config.columns:
        what = f"`columns` {' '.join(config.columns)}"
    elif config.group is not None and not own_pairs:
        what = f"`group` {config.group}"
    else:
        return
    for source in sources:
        if not source.has_columns:
            raise UserError(
                f"{what}: {source.name} has no columns. Expected csv, tsv, jsonl or parquet files."
            )


def parser_versions() -> list[str]:
    """Return the versions of the parsers, and of the Unicode tables that define words."""
    versions = [readable_hash(Path(shutil.which(MANDOC) or "")), unicodedata.unidata_version]
    for parser in ("py3langid", "sentencex", *(parser for _, parser in DOCUMENT_FORMATS.values())):
        with suppress(importlib.metadata.PackageNotFoundError, ValueError):  # "" is no name
            versions.append(f"{parser} {importlib.metadata.version(parser)}")
    return versions
