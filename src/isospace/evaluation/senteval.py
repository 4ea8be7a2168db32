"""SentEval's files: place, columns, encoding and labels of each task; copies of the STS sets.

Source: folder `data/downstream` of SentEval (Conneau & Kiela 2018). Names and folded white space
are those of SentEval.

The copies on the Hugging Face Hub are those of mteb, at its revisions. They have the same pairs and
gold scores, and other case and tokenisation. They have no sub-sets, so STS12-16 have the score
"all" only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.sources import Source, lines_of
from isospace.errors import UserError, first_line, number_of
from isospace.evaluation.own_data import parse_score
from isospace.evaluation.pairs import ScoredPairs
from isospace.system.imports import import_extra

YEARS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),  # SMT is not freely distributed; SentEval lacks it
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The sets of STS12-16 and their sub-sets."""

_LAYOUT = (
    "expected SentEval's layout (downstream/STS/STS12-en-test/STS.input.MSRpar.txt, "
    "downstream/MR/rt-polarity.pos, ...); `data` hub takes the Hub's copies of the STS sets"
)

_SCORED_SPLITS = {
    "STSBenchmark": {
        split: f"STS/STSBenchmark/sts-{split}.csv" for split in ("train", "dev", "test")
    },
    "SICKRelatedness": {
        "train": "SICK/SICK_train.txt",
        "dev": "SICK/SICK_trial.txt",
        "test": "SICK/SICK_test_annotated.txt",
    },
}
_SCORED_COLUMNS = {"STSBenchmark": (7, (5, 6, 4)), "SICKRelatedness": (5, (1, 2, 3))}
"""Set -> number of columns, and the positions of both sentences and of the score."""

_FILE_OF_EACH_LABEL = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
"""Task -> file of label 0, file of label 1."""

_FILE_OF_EACH_SPLIT = {
    "SST2": {split: f"SST/binary/sentiment-{split}" for split in ("train", "dev", "test")},
    "TREC": {"train": "TREC/train_5500.label", "test": "TREC/TREC_10.label"},
    "MRPC": {split: f"MRPC/msr_paraphrase_{split}.txt" for split in ("train", "test")},
}

TRANSFER_NAMES = (*_FILE_OF_EACH_LABEL, *_FILE_OF_EACH_SPLIT)
"""The seven transfer tasks, in the order of the papers' columns."""

LABELS = dict.fromkeys(TRANSFER_NAMES, ("0", "1")) | {
    "TREC": ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
}
"""Transfer task -> its labels in the files; the position of a label is its number here."""

COPIES = {
    "STS12": ("mteb/sts12-sts", "a0d554a64d88156834ff5ae9920b964011b16384"),
    "STS13": ("mteb/sts13-sts", "7e90230a92c190f1bf69ae9002b8cea547a64cca"),
    "STS14": ("mteb/sts14-sts", "6031580fec1f6af667f0bd2da0a551cf4f0b2375"),
    "STS15": ("mteb/sts15-sts", "ae752c7c21bf194d8b67fd573edf7ae58183cbe3"),
    "STS16": ("mteb/sts16-sts", "4d8694f8f0e0100860b497b999b3dbed754a0513"),
    "STSBenchmark": ("mteb/stsbenchmark-sts", "b0fddb56ed78048fa8b90373c8a3cfc37b684831"),
    "SICKRelatedness": ("mteb/sickr-sts", "20a6d6f312dd54037fe07a32d58e5e168867909d"),
}
"""Task -> repository and revision."""
SICK_TEST = {"pairs": 4927, "gold_sum": 17392.415, "characters": 454_356}
"""Sums that identify the test file within the Hub's only split of 9,927 pairs."""

_TOLERANCE = 0.01  # for the sum of gold scores, which are stored as decimals or float32


@dataclass(frozen=True)
class STSSet:
    """One set, as named sub-sets (STS12-16) or splits (STSBenchmark, SICKRelatedness)."""

    name: str
    subsets: dict[str, ScoredPairs]

    def test_only(self) -> STSSet:
        """Return the part in the papers' tables: all of STS12-16, else the test split."""
        if self.name in YEARS:
            return self
        return STSSet(self.name, {"test": self.subsets["test"]})


@dataclass(frozen=True)
class Labelled:
    """Labelled sentences, or sentence pairs, in SentEval's order: by length, then by label.

    `sides` are the sentences, or all first and all second sentences; `labels` (row,) are from 0.
    """

    sides: tuple[tuple[str, ...], ...]
    labels: NDArray[np.int64]


_Example: TypeAlias = tuple[tuple[str, ...], int]


def find_root(folder: Path) -> Path:
    """Return SentEval's `downstream`: in the folder, the folder itself, or its parent."""
    for root in (folder / "downstream", folder, folder.parent):
        if any((root / name).is_dir() for name in ("STS", "SICK", "SST", *TRANSFER_NAMES)):
            return root
    raise UserError(f"no tasks under {folder}; {_LAYOUT}")


def read_scored(root: Path, name: str) -> dict[str, ScoredPairs]:
    """Return sub-set or split -> the scored pairs of one of the seven STS sets."""
    if name in YEARS:
        return {subset: _read_subset(root, name, subset) for subset in YEARS[name]}
    return {split: _read_split(root, name, split) for split in _SCORED_SPLITS[name]}


def _read_subset(root: Path, name: str, subset: str) -> ScoredPairs:
    """Read two files line by line; drop pairs whose gold line is empty."""
    folder = root / "STS" / f"{name}-en-test"
    texts_path, gold_path = folder / f"STS.input.{subset}.txt", folder / f"STS.gs.{subset}.txt"
    texts, golds = _read_lines(texts_path), _read_lines(gold_path)
    if len(texts) != len(golds):
        lines = number_of(len(texts), "lines")
        raise UserError(f"{texts_path} has {lines} and {gold_path} has {len(golds)}")
    rows = []
    for number, (text, gold) in enumerate(zip(texts, golds, strict=True), start=1):
        fields = _fields(texts_path, number, text, 2)
        if gold.strip():
            score = parse_score(gold_path, number, gold)
            rows.append((_fold(fields[0]), _fold(fields[1]), score))
    return _scored_pairs(f"{name} {subset}", rows, gold_path)


def _read_split(root: Path, name: str, split: str) -> ScoredPairs:
    path = root / _SCORED_SPLITS[name][split]
    width, (first, second, gold) = _SCORED_COLUMNS[name]
    rows = []
    for number, line in enumerate(_read_lines(path), start=1):
        if number == 1 and name == "SICKRelatedness":
            continue  # the header
        fields = _fields(path, number, line, width)
        score = parse_score(path, number, _fold(fields[gold]))
        rows.append((_fold(fields[first]), _fold(fields[second]), score))
    return _scored_pairs(f"{name} {split}", rows, path)


def _fields(path: Path, number: int, line: str, width: int) -> list[str]:
    """Split a line at tabs; lines of STS-B may have more than `width` fields."""
    fields = line.split("\t")
    if len(fields) < width:
        found = number_of(len(fields), "tab-separated fields")
        raise UserError(f"{path}:{number}: {found}, expected {width}")
    return fields


def _scored_pairs(name: str, rows: Sequence[tuple[str, str, float]], path: Path) -> ScoredPairs:
    if not rows:
        raise UserError(f"{path}: no scored pair")
    first, second, gold = zip(*rows, strict=True)
    return ScoredPairs(name, first, second, np.array(gold), "SentEval files")


def read_labelled(root: Path, name: str) -> dict[str, Labelled]:
    """Return split -> the examples of one of `TRANSFER_NAMES`.

    A task without splits has the single split "all". As in SentEval, a blank line of a binary task
    is an example without words. Files of binary tasks and TREC are read as Latin-1.
    """
    splits: dict[str, list[_Example]] = {}
    for label, file in enumerate(_FILE_OF_EACH_LABEL.get(name, ())):
        every = splits.setdefault("all", [])
        every += [((_fold(text),), label) for text in _read_latin1(root / file)]
    for split, file in _FILE_OF_EACH_SPLIT.get(name, {}).items():
        splits[split] = _read_examples(root / file, name)
    for split, examples in splits.items():
        if not examples:
            raise UserError(f"{root}: no example in {name}'s split {split!r}")
    return {split: _in_order(examples) for split, examples in splits.items()}


def _read_examples(path: Path, name: str) -> list[_Example]:
    """Read a file with sentences and labels.

    A line of TREC is such as "NUM:dist How far is it from Denver to Aspen ?".
    """
    rows: list[_Example] = []
    lines = _read_latin1(path) if name == "TREC" else _read_lines(path)
    for number, line in enumerate(lines, start=1):
        texts: Sequence[str]
        if name == "MRPC" and number == 1:
            continue  # the header
        if name == "TREC":
            kind, _, *texts = line.strip().partition(" ")
            label = kind.partition(":")[0]
        elif name == "SST2":
            *texts, label = _fields(path, number, line.strip(), 2)[:2]
        else:
            label, _, _, *texts = _fields(path, number, line.strip(), 5)[:5]
        if label not in LABELS[name]:
            raise UserError(
                f"{path}:{number}: the label {label!r} is unknown; expected one of "
                f"{', '.join(LABELS[name])}"
            )
        rows.append((tuple(map(_fold, texts)), LABELS[name].index(label)))
    return rows


def _in_order(examples: Sequence[_Example]) -> Labelled:
    ordered = sorted(examples, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    texts, labels = zip(*ordered, strict=True)
    return Labelled(tuple(zip(*texts, strict=True)), np.array(labels))


def _read_lines(path: Path) -> list[str]:
    try:
        lines = lines_of(Source(path, str(path), "txt"), newline="\n")  # split at \n only
        return [line.rstrip("\n").removesuffix("\r") for _, line in lines]
    except UserError as error:
        raise UserError(f"{error}; {_LAYOUT}") from error


def _read_latin1(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("latin-1").splitlines()
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}); {_LAYOUT}") from error


def _fold(text: str) -> str:
    """Return the words of a text, joined by single spaces."""
    return " ".join(text.split())


def load_sts_hub() -> dict[str, STSSet]:
    """Load the seven STS sets from the Hub, at pinned revisions.

    SICK-R on the Hub is one split with the 9,927 pairs of SentEval's three files.
    """
    load = import_extra("`data` hub", "hub", "datasets").load_dataset
    tasks = {}
    for task, place in COPIES.items():
        splits = {"test": "test"}
        if task == "STSBenchmark":
            splits = {"dev": "validation", "test": "test"}
        loaded = {name: _load_copy(load, task, split, *place) for name, split in splits.items()}
        tasks[task] = STSSet(task, loaded)
    tasks["SICKRelatedness"] = _split_sick(tasks["SICKRelatedness"].subsets["test"])
    return tasks


def _load_copy(
    load_dataset: Callable[..., Any], task: str, split: str, repository: str, revision: str
) -> ScoredPairs:
    try:
        rows = load_dataset(repository, split=split, revision=revision)
    except Exception as error:  # datasets, its HTTP client and the Hub raise many kinds
        raise UserError(
            f"cannot load {repository} from the Hugging Face Hub ({first_line(error)}). "
            "Check the network, or name a SentEval folder with `data`"
        ) from error
    gold = np.array(rows["score"], dtype=np.float64)
    source = f"{repository}@{revision[:8]} ({split})"
    first, second = tuple(rows["sentence1"]), tuple(rows["sentence2"])
    return ScoredPairs(f"{task} {split}", first, second, gold, source)


def _split_sick(every: ScoredPairs) -> STSSet:
    """Return the consecutive rows that have the sums of the test file."""
    n = int(SICK_TEST["pairs"])
    lengths = [len(first) + len(second) for first, second in every]
    gold_sums = np.cumsum([0.0, *every.gold])
    characters = np.cumsum([0, *lengths])
    match = (abs(gold_sums[n:] - gold_sums[:-n] - SICK_TEST["gold_sum"]) <= _TOLERANCE) & (
        characters[n:] - characters[:-n] == SICK_TEST["characters"]
    )
    starts = np.flatnonzero(match)
    if len(starts) != 1:
        raise UserError(
            f"{every.source}: no {n:,} consecutive rows are the papers' test pairs of SICK-R. "
            "Name a SentEval folder with `data`"
        )
    rows = slice(starts[0], starts[0] + n)
    test = ScoredPairs(
        "SICKRelatedness test",
        every.first[rows],
        every.second[rows],
        every.gold[rows],
        f"{every.source}, rows {rows.start}-{rows.stop - 1}",
    )
    return STSSet("SICKRelatedness", {"test": test})
