"""A corpus: clean text to train on, without repetitions, on disk."""

from __future__ import annotations

import copy
import importlib.metadata
import json
import logging
import shutil
import tempfile
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isospace.config import CorpusConfig
from isospace.corpus import records
from isospace.corpus.build import build
from isospace.corpus.docstrings import versions_of
from isospace.corpus.formats import DOCUMENT_FORMATS
from isospace.corpus.formats.man import MANDOC
from isospace.corpus.groups import Pairs, split_groups
from isospace.corpus.lines import Lines
from isospace.corpus.passages import check_language
from isospace.corpus.reading import FOLDER, columns, find, left_out, places
from isospace.corpus.relations import Related
from isospace.corpus.sources import DOCSTRINGS, require_columns
from isospace.corpus.streams import Source
from isospace.errors import UserError
from isospace.statistics.counts import number_of
from isospace.system.cache import built_once, make_in_cache, remove_stale
from isospace.system.files import hash_of, readable_hash

logger = logging.getLogger(__name__)

READING = 4
"""Raise this number when the same files and settings give another corpus than before.

It stands for the code in the cache's key; `tests/corpus/test_reading.py` fails where it was not
raised.
"""
_NO_TEXT = ("corpus", "distractors")
"""Settings that say nothing of what becomes of a text."""


class Corpus(Lines):
    """Clean texts in file order, those for training and those held out, read from disk.

    They are sentences or the passages of documents. Where examples have several texts, a position
    is that of an anchor, and the lines after it are its positive and its hard negative; documents
    also have lines of titles, headings and parts of passages (`relations.Role`).

    Attributes:
        counts: how many lines were read and what became of them.
        files: format -> how many files of it were read, the most first.
        digest: a hash of the texts (and of the packages' versions, for docstrings).
        pairs: natural pairs to evaluate on, never to train on: of a relation of held-out documents,
            of docstrings whose summary and next paragraph are not here, or, for examples, the
            held-out anchors and positives.
        columns: those of the texts of an example; none where a text stands for itself.
        group: the column that says which rows belong together, `None` where their texts do.
        held_groups: the group of each sentence in `held_out()`.
        validation: positions in `held_out()` of the validation items.
        test: of the test items; others, where there are enough for a split by group.
        train_rows: (n,) positions of the sentences to train on, ascending.
        classes: the labels that examples have, sorted; none without a column of labels.
        same: (line,) a number that texts to train on share where they repeat each other, or nearly
            do (unless `near_duplicates` is off).
        related: what belongs together in documents; `None` for texts without structure.
        groups: (passage,) the group of each passage of documents, from 0 on: its document, or
            documents that belong together; empty for texts without structure.
        labels: (example,) place in `classes` of each example's label, `None` without such a column.
        unreadable: files by their place: whether nothing or hardly anything was read, and why.
    """

    def __init__(self, folder: Path) -> None:
        with (folder / "texts.txt").open("rb") as file:
            # A plain array over the map is quicker to index than a np.memmap.
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
        self._held_rows: NDArray[np.int64] = np.load(folder / "held_out.npy")
        self.train_rows: NDArray[np.int64] = np.load(folder / "train.npy")
        self.same: NDArray[np.int64] = np.load(folder / "same.npy")
        self.classes: list[str] = about["classes"]
        self.unreadable: list[tuple[int, bool, str]] = about["unreadable"]
        self.labels: NDArray[np.int64] | None = None
        if self.classes:
            self.labels = np.load(folder / "labels.npy")
        self.related = Related.load(folder)
        self.groups: NDArray[np.int64] = np.empty(0, np.int64)
        if self.related is not None:
            self.groups = np.load(folder / "groups.npy")

    @property
    def passages(self) -> NDArray[np.int64]:
        """Return the positions of the passages, ascending; of rows and lines all positions."""
        return np.arange(len(self)) if self.related is None else self.related.structure.passages

    def holding_out(self, held: NDArray[np.bool_], relation: str) -> Corpus:
        """Return the same lines with other passages held out, and no pairs to evaluate on.

        Args:
            held: (passage,) which passages of documents are held out, whole groups of them.
            relation: by which they are judged.
        """
        assert self.related is not None
        mine, telling = self.related, self.related.telling
        out, train = self.passages[held], self.passages[~held]
        with tempfile.TemporaryDirectory() as scratch:
            nothing = np.zeros(len(self), dtype=bool)
            related, same = Related.build(mine.structure, self, out, train, nothing, Path(scratch))
        other = copy.copy(self)
        other.related, other.same = replace(related, telling=telling), same
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

    @property
    def summary(self) -> str:
        """Describe the counts in words."""
        return ", ".join(number_of(n, what) for what, n in self.counts.items() if n)

    @property
    def label_summary(self) -> str:
        """Say how many examples of each class are trained on; of ten classes at most."""
        if self.labels is None:
            return ""
        texts = len(self) // len(self.labels)
        counts = np.bincount(self.labels[self.train_rows // texts], minlength=len(self.classes))
        words = [f"{n:,} {name}" for n, name in zip(counts, self.classes, strict=True)]
        others = len(words) - 10
        rest = f" and {number_of(others, 'other labels')}" if others > 0 else ""
        return ", ".join(words[:10]) + rest

    def held_out(self, places: NDArray[np.int64] | None = None) -> list[str]:
        """Return sentences to measure on without labels, never to train on.

        They are the groups with the least hashes: a random sample of the corpus that depends on no
        random state and not on the order of the lines, and that hardly changes when text is added.
        `places` are positions among them, such as `test`; default: all.
        """
        return [self[row] for row in self.held_rows(places)]

    def held_rows(self, places: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the positions of what `held_out` gives, in the same order."""
        return self._held_rows if places is None else self._held_rows[places]


def load_corpus(config: CorpusConfig, cache: Path, exclude: Iterable[str] = ()) -> Corpus:
    """Read, clean and de-duplicate the text, or find the result of an earlier call.

    Args:
        config: what to read and how.
        cache: results are kept in `cache / "corpus"`, under a hash of the input's bytes, the
            options, `READING` and the versions of the parsers.
        exclude: texts that must not be trained on, such as those of evaluation pairs: they, their
            sentences, and what is a near duplicate of either are left out. With some, text that has
            no columns is read even where `group` names one, which they then have.

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
        sources = find(config.corpus, Path(spool), config)
        _check(config, sources, bool(excluded))
        options = {name: value for name, value in asdict(config).items() if name not in _NO_TEXT}
        hashes = [*map(_hash, sources)]
        inputs = [
            (source.format, source.compression, source.in_folder, content, place)
            for source, content, place in zip(sources, hashes, places(sources), strict=True)
        ]
        key = hash_of(repr((READING, parser_versions(sources), options, inputs, excluded)).encode())

        def build_as_hashed(new: Path) -> None:
            build(new, config, sources, excluded)
            if [*map(_hash, sources)] != hashes:
                raise UserError(
                    f"{', '.join(config.corpus)}: the text changed while it was read. Run the same "
                    "command again"
                )

        corpus = built_once(folder / key, build_as_hashed, Corpus)
    _warn_of_unreadable(corpus, sources)
    logger.info("corpus: %s", corpus.summary)
    if len(corpus) == 0:
        raise UserError(
            f"{', '.join(config.corpus)}: no text to train on "
            f"({corpus.summary or 'nothing to read'}). Give texts of {config.min_chars} "
            "characters or more (`min_chars`)."
        )
    if config.group is not None and config.held_out and not corpus.held_groups:
        logger.warning(
            "`group` %s: nothing is held out, because every group has more texts than `held_out` "
            "or a tenth of all texts. Leave `group` out, or name smaller groups",
            config.group,
        )
    return corpus


def _hash(source: Source) -> str:
    """Return a hash of the content of a file, or of the modules and packages with docstrings."""
    if source.format == DOCSTRINGS:
        return hash_of(repr(sorted(versions_of(source.name).items())).encode())
    return readable_hash(source.path)


def _warn_of_unreadable(corpus: Corpus, sources: Sequence[Source]) -> None:
    """Log which files were not or hardly read, in one line where the reason is the same."""
    names: dict[tuple[bool, str], list[str]] = {}
    for place, unread, reason in corpus.unreadable:
        names.setdefault((unread, reason), []).append(sources[place].name)
    for (unread, reason), files in names.items():
        more = f" and {len(files) - 3:,} more files" if len(files) > 3 else ""
        verb = "not read" if unread else "hardly read"
        logger.warning("%s: %s%s%s", verb, ", ".join(files[:3]), more, reason)


def _check(config: CorpusConfig, sources: list[Source], own_pairs: bool) -> None:
    """Refuse settings that do nothing, and bad files before any is read whole."""
    if config.language is not None:
        check_language(config.language)
    if config.columns and config.layout is not None:
        raise UserError(
            f"`layout` {config.layout} `columns` {' '.join(config.columns)}: `layout` is for txt "
            "files, which have no columns. Give one of the two settings"
        )
    if len(config.columns) == 1:
        raise UserError(
            f"`columns` {config.columns[0]}: only one column. Name anchor, positive and perhaps "
            "hard negatives, separated by blanks, or name a single column of texts with `column` "
            f"{config.columns[0]}"
        )
    if not own_pairs:
        for setting in ("title_column", "document_column"):
            require_columns(sources, config.corpus, setting, getattr(config, setting))
    _require_columns_of_all(config, sources, own_pairs)
    if config.columns:  # of what lies in folders the reader says so
        named = [source for source in sources if not source.in_folder]
        records.unreadable(named, columns(config))
    else:
        left_out(sources, columns(config), config.strict)


def _require_columns_of_all(config: CorpusConfig, sources: list[Source], own_pairs: bool) -> None:
    """Refuse text without columns where all of it must have some."""
    lines = [s.name for s in sources if s.format == "txt"]
    if config.group != FOLDER:
        lines += [s.name for s in sources if s.format in DOCUMENT_FORMATS]
    lines += [s.name for s in sources if s.format == DOCSTRINGS]
    setting = f"`columns` {' '.join(config.columns)}" if config.columns else None
    if config.group is not None and not own_pairs:
        setting = setting or f"`group` {config.group}"
    if setting and lines:
        wanted = "Expected csv, tsv, jsonl or parquet files."
        if config.group == FOLDER and not config.columns:
            wanted = "Expected documents; with `layout` paragraphs every txt file is one."
        raise UserError(f"{setting}: {lines[0]} has no columns. {wanted}")


_PARSERS = (
    "docutils", "markdown-it-py", "py3langid", "pypdf", "python-docx", "selectolax", "sentencex",
)  # fmt: skip
"""Distributions that decide on what is read of a file."""


def parser_versions(sources: Iterable[Source] = ()) -> list[str]:
    """Return the versions of what decides on the text of these files.

    The tables of Unicode decide on characters and words; they come with Python.
    """
    versions = [*map(_version, _PARSERS), unicodedata.unidata_version]
    if any(source.format == "man" for source in sources):
        program = shutil.which(MANDOC)
        versions.append(readable_hash(Path(program)) if program else "")
    return versions


def _version(distribution: str) -> str:
    """Return the version of a distribution; "" where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
