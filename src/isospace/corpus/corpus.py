"""Sentences to train on: read, cleaned, without repetitions, on disk.

Cleaning is Unicode NFC, the removal of control characters, and white space folded to single
blanks. NFC and not NFKC: two spellings of one character become equal, while what the writer chose
(a superscript, a ligature, a full-width letter) stays; a tokenizer that was trained on NFKC text
applies it itself.
"""

from __future__ import annotations

import json
import logging
import mmap
import re
import tempfile
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isospace.config import CorpusConfig
from isospace.corpus import records
from isospace.corpus.docstrings import Pairs, installed_packages, read_docstrings
from isospace.corpus.examples import hold_out, same_texts, select_examples, select_sentences
from isospace.corpus.groups import (
    components,
    group_key,
    group_names,
    key_groups,
    split_groups,
    unit_of,
)
from isospace.corpus.labels import Labels, belonging
from isospace.corpus.prose import split_sentences
from isospace.corpus.records import Column, Source
from isospace.errors import UserError
from isospace.system.cache import built_once, remove_stale
from isospace.system.files import file_hash

logger = logging.getLogger(__name__)

# Unicode's Cc but for white space, lone surrogates (from JSON escapes), and the byte order mark.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff]")


class Row(NamedTuple):
    """A row to be cleaned.

    Attributes:
        texts: of the example, or the sentence.
        place: the file and the line, for messages.
        group: `None` where it has none.
        label: as the file has it.
    """

    texts: tuple[str, ...]
    place: str = ""
    group: str | None = None
    label: Any = None


_LINE_COUNTS = ("read", "control characters removed", "empty", "too short", "too long")


class Lines:
    """A UTF-8 file with a text a line, read by position through a memory map.

    Args:
        file: the file; every line ends in a newline.
        offsets: (n + 1,) positions in bytes at which the lines begin, and the file's size.
    """

    def __init__(self, file: BinaryIO, offsets: NDArray[np.int64]) -> None:
        self.offsets = offsets
        # An empty file cannot be mapped.
        size = int(offsets[-1])
        self._bytes = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> str:
        row = range(len(self))[row]  # negative positions, and IndexError beyond the ends
        return self._bytes[self.offsets[row] : self.offsets[row + 1] - 1].decode()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))


class Corpus(Lines):
    """Clean sentences in file order, those for training and those held out, read from disk.

    Where examples have several texts, a sentence here is an anchor, and the lines after it are its
    positive and its hard negative.

    Attributes:
        counts: how many lines were read and what became of them.
        digest: a hash of the sentences (and of the packages' versions, for docstrings).
        packages: versions of the packages that were read, for docstrings.
        pairs: natural pairs to evaluate on, never to train on: for docstrings, none of whose
            sentences is here, and for examples, the held-out anchors and positives.
        group: the column that says which rows belong together, `None` where their texts do.
        held_groups: the group of each sentence in `held_out()`.
        chooses: positions in `held_out()` of those that choose, such as between checkpoints.
        judges: of those that are reported on; others, where there are enough for a split by group.
        train_rows: (n,) positions of the sentences to train on, ascending.
        classes: the labels that examples have, sorted; none without a column of labels.
        labels: (example,) place in `classes` of each example's label, `None` without such a column.
    """

    def __init__(self, folder: Path) -> None:
        with (folder / "sentences.txt").open("rb") as file:
            # A plain array over the map is quicker to index than a np.memmap.
            super().__init__(file, np.asarray(np.load(folder / "offsets.npy", mmap_mode="r")))
        about = json.loads((folder / "about.json").read_text("utf-8"))
        self.counts: dict[str, int] = about["counts"]
        self.digest: str = about["digest"]
        self.packages: dict[str, str] = about["packages"]
        dev, test = ([(a, b) for a, b in about["pairs"][part]] for part in ("dev", "test"))
        self.pairs = Pairs(**{**about["pairs"], "dev": dev, "test": test})
        self.group: str | None = about["group"]
        self.held_groups: list[str] = about["held_groups"]
        self.chooses, self.judges = split_groups(self.held_groups)
        self._held_rows: NDArray[np.int64] = np.load(folder / "held_out.npy")
        self.train_rows: NDArray[np.int64] = np.load(folder / "train.npy")
        self.classes: list[str] = about["classes"]
        self.labels: NDArray[np.int64] | None = None
        if self.classes:
            self.labels = np.load(folder / "labels.npy")

    @property
    def summary(self) -> str:
        """The counts in words."""
        return ", ".join(f"{n:,} {what}" for what, n in self.counts.items() if n)

    @property
    def label_summary(self) -> str:
        """How many examples of each class are trained on, in words; of ten classes."""
        if self.labels is None:
            return ""
        texts = len(self) // len(self.labels)
        counts = np.bincount(self.labels[self.train_rows // texts], minlength=len(self.classes))
        words = [f"{n:,} {name}" for n, name in zip(counts, self.classes, strict=True)]
        others = len(words) - 10
        return ", ".join(words[:10]) + (f" and {others:,} other labels" if others > 0 else "")

    def held_out(self, places: NDArray[np.int64] | None = None) -> list[str]:
        """Sentences to measure on without labels, never to train on.

        They are the groups with the least hashes: a random sample of the corpus that depends on no
        random state and not on the order of the lines, and that hardly changes when text is added.
        `places` are positions among them, such as `judges`; default: all.
        """
        rows = self._held_rows if places is None else self._held_rows[places]
        return [self[row] for row in rows]


def load_corpus(config: CorpusConfig, cache: Path, exclude: Iterable[str] = ()) -> Corpus:
    """Reads, cleans and de-duplicates the text, or finds the result of an earlier call.

    Args:
        config: what to read and how.
        cache: results are kept in `cache / "corpus"`, under a hash of the input's bytes, the
            options and this code.
        exclude: texts that must not be trained on, such as those of evaluation pairs: they, their
            sentences, and what is a near duplicate of either are left out. With some, text that has
            no columns is read even where `group` names one, which they then have.

    Raises:
        UserError: the input cannot be read, or no sentence is left.
    """
    if not config.corpus:
        raise UserError("`corpus` is missing: give a text file, a folder, - or docstrings")
    folder = cache / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    remove_stale(folder, ".input-*")
    packages = installed_packages() if "docstrings" in config.corpus else {}
    excluded = sorted(set(exclude))
    with tempfile.TemporaryDirectory(prefix=".input-", dir=folder) as spool:
        files = (name for name in config.corpus if name != "docstrings")
        sources = records.find_sources(files, Path(spool), config.encoding)
        _check(config, sources, bool(excluded))
        options = {name: value for name, value in asdict(config).items() if name != "corpus"}
        inputs = [(source.format, source.compression, file_hash(source.path)) for source in sources]
        key = _hash(repr((_code_hashes(), options, packages, inputs, excluded)).encode())
        result = built_once(
            folder / key, lambda new: _build(new, config, packages, sources, excluded)
        )
    corpus = Corpus(result)
    logger.info("corpus: %s", corpus.summary)
    if len(corpus) == 0:
        raise UserError(
            f"{', '.join(config.corpus) or 'no file'}: no sentence to train on "
            f"({corpus.summary or 'nothing to read'}). "
            f"Expected sentences of {config.min_chars} to {config.max_chars} characters."
        )
    return corpus


def clean(text: str) -> str:
    r"""NFC, without control characters, on one line and with single blanks.

    >>> clean("  Two\twords,\0 one  cafe\u0301. \r\n")
    'Two words, one café.'
    """
    if not text.isprintable():
        text = _CONTROL.sub("", text)
    return " ".join(unicodedata.normalize("NFC", text).split())


def _columns(config: CorpusConfig) -> list[Column]:
    """The columns to read: of the texts, then of the group and of the label, if there are such."""
    columns = [Column(name, "`columns`") for name in config.columns]
    columns = columns or [Column(config.column, "`column`")]
    if config.group is not None:
        columns.append(Column(config.group, "`group`", text=False))
    if config.label_column is not None:
        columns.append(Column(config.label_column, "`label_column`", text=False))
    return columns


def _check(config: CorpusConfig, sources: list[Source], own_pairs: bool) -> None:
    """Refuses bad files before any is read whole."""
    if len(config.columns) == 1:
        raise UserError(
            f"`columns` {config.columns[0]}: one column of texts. Expected those of anchor and "
            f"positive, and perhaps of hard negatives; or name it with `column` {config.columns[0]}"
        )
    lines = [s.name for s in sources if s.format == "txt"]
    lines += ["docstrings"] if "docstrings" in config.corpus else []
    setting = f"`columns` {' '.join(config.columns)}" if config.columns else None
    if config.group is not None and not own_pairs:
        setting = setting or f"`group` {config.group}"
    if setting and lines:
        raise UserError(
            f"{setting}: {lines[0]} has no columns. Expected csv, tsv, jsonl or parquet files."
        )
    for source in sources:
        records.check(source, _columns(config))


def _build(
    folder: Path,
    config: CorpusConfig,
    packages: dict[str, str],
    sources: list[Source],
    excluded: list[str],
) -> None:
    """Fills the folder that `Corpus` reads."""
    rows = _rows(sources, config)
    pairs = Pairs()
    if packages:
        sentences, pairs = read_docstrings(packages, excluded)
        rows = chain((Row((sentence,)) for sentence in sentences), rows)
        excluded = [*excluded, *chain.from_iterable([*pairs.dev, *pairs.test])]
    parts = chain(excluded, *map(split_sentences, excluded))
    references = [text for text in dict.fromkeys(map(clean, parts)) if text]
    counts = dict.fromkeys(_LINE_COUNTS, 0)
    keys = array("Q")
    labels = Labels(config.label_column) if config.label_column is not None else None
    width = max(1, len(config.columns))
    distinct = config.near_duplicates and not config.columns
    with tempfile.TemporaryFile(dir=folder) as staged:
        usable = _usable(rows, config, counts, keys, labels)
        text, hashes = _stage(chain(references, usable), staged)
        if distinct:
            lines = select_sentences(text, hashes, len(references), folder, counts)
        else:
            lines = select_examples(text, hashes, len(references), width, folder, counts)
        digest = _write_sentences(folder, text, lines)
        examples = hashes[lines].reshape(-1, width)
        count = min(config.held_out, len(examples) // 10)
        same = np.arange(len(lines))
        if count and not distinct:
            same = same_texts(text, lines, hashes[lines], folder)
        same = same.reshape(examples.shape)
        rows_kept = (lines[::width] - len(references)) // width
        if config.group is None:
            groups = components(same[:, :2])  # a hard negative may come from anywhere
        else:
            groups = key_groups(np.array(keys, dtype=np.uint64)[rows_kept])
        classes: list[str] = []
        positive = None
        content: tuple[Any, ...] = (digest, packages)
        if labels is not None:
            classes, numbers = labels.of(rows_kept)
            positive = belonging(classes, numbers, config.positive_label)
            np.save(folder / "labels.npy", numbers)
            content = (*content, classes, _hash(numbers.tobytes()))
        held, train = hold_out(examples, same, groups, count, positive)
        held_groups = group_names(groups[held], examples[held])
        if config.columns and (labels is None or positive is not None):
            held_pairs = [(text[i], text[i + 1]) for i in lines[::width][held]]
            unit = unit_of(config.group)
            pairs = Pairs.of(held_pairs, held_groups, *split_groups(held_groups), unit)
    np.save(folder / "held_out.npy", held * width)
    np.save(folder / "train.npy", train * width)
    related = len(examples) - len(held) - len(train)
    counts |= {
        "related to what is held out": related,
        "held out": len(held),
        "for training": len(train),
    }
    about = {
        "counts": counts,
        "digest": _hash(repr(content).encode()),
        "packages": packages,
        "pairs": asdict(pairs),
        "group": config.group,
        "held_groups": held_groups,
        "classes": classes,
    }
    (folder / "about.json").write_text(json.dumps(about, ensure_ascii=False), "utf-8")


def _rows(sources: list[Source], config: CorpusConfig) -> Iterator[Row]:
    """The rows of the files, a missing text as the empty text."""
    columns = _columns(config)
    width = max(1, len(config.columns))
    for source in sources:
        for file, line, values in records.read_records(source, columns):
            yield Row(
                tuple(text or "" for text in values[:width]),
                f"{file}:{line}",
                group_key(values[width]) if config.group is not None else None,
                values[-1] if config.label_column is not None else None,
            )


def _usable(
    rows: Iterable[Row],
    config: CorpusConfig,
    counts: dict[str, int],
    keys: array[int],
    labels: Labels | None,
) -> Iterator[str]:
    """The clean texts of the rows whose texts all have a usable length; counts the other rows.

    `keys` receives a hash of each such row's group, 0 for none, where `group` is set, and `labels`
    its label.
    """
    for row in rows:
        texts = [clean(text) for text in row.texts]
        lengths = list(map(len, texts))
        shortest, longest = min(lengths), max(lengths)
        counts["read"] += 1
        if any(map(_CONTROL.search, row.texts)):
            counts["control characters removed"] += 1
        if not shortest:
            counts["empty"] += 1
        elif shortest < config.min_chars:
            counts["too short"] += 1
        elif longest > config.max_chars:
            counts["too long"] += 1
        else:
            if config.group is not None:
                keys.append(_key(row.group))
            if labels is not None:
                labels.add(row.label, row.place)
            yield from texts


def _key(group: str | None) -> int:
    if group is None:
        return 0
    content = group.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def _stage(sentences: Iterable[str], file: BinaryIO) -> tuple[Lines, NDArray[np.uint64]]:
    """Writes the sentences to a file; gives them back as lines, with a 64-bit hash of each."""
    hashes = bytearray()
    offsets = array("q", [0])
    for sentence in sentences:
        line = sentence.encode()
        hashes += blake2b(line, digest_size=8).digest()
        offsets.append(offsets[-1] + file.write(line + b"\n"))
    file.flush()
    return Lines(file, np.array(offsets)), np.frombuffer(hashes, dtype="<u8")


def _write_sentences(folder: Path, text: Lines, rows: NDArray[np.int64]) -> str:
    """Writes these rows of the text and their positions; returns a hash of what was written."""
    content = blake2b(digest_size=16)
    with (folder / "sentences.txt").open("wb") as file:
        for row in rows:
            line = text[row].encode() + b"\n"
            content.update(line)
            file.write(line)
    sizes = np.diff(text.offsets)[rows]
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(sizes)]))
    return content.hexdigest()


def _code_hashes() -> list[str]:
    """What cleans and selects: every module of this package, whatever stands in which of them.

    The tables of Unicode decide on characters and words; they come with Python.
    """
    modules = sorted(Path(__file__).parent.rglob("*.py"))
    return [*map(file_hash, modules), unicodedata.unidata_version]


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
