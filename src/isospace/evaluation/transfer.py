"""The seven transfer tasks of the papers: logistic regression on frozen embeddings.

Source of the protocol: SentEval (Conneau & Kiela 2018) as SimCSE runs it (Gao et al. 2021): MR, CR,
SUBJ and MPQA by nested cross-validation, SST-2 on its own split, TREC and MRPC by folds of the
training file and then the test file. `classifiers` holds the protocols: folds and classifiers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score

from isospace.errors import UserError
from isospace.evaluation.classifiers import (
    PROTOCOLS,
    Features,
    Outcome,
    given_split,
    k_fold_then_test,
    nested_k_fold,
)
from isospace.evaluation.pairs import Encode, encode_distinct
from isospace.evaluation.rows import read_lines, sentevals_root
from isospace.evaluation.stacked import SEED, IntArray

TASKS = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")
"""In the order of the papers' columns."""

_BINARY = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
"""One file a label: 0, 1."""

_SPLITS = {
    "SST2": {split: f"SST/binary/sentiment-{split}" for split in ("train", "dev", "test")},
    "TREC": {"train": "TREC/train_5500.label", "test": "TREC/TREC_10.label"},
    "MRPC": {split: f"MRPC/msr_paraphrase_{split}.txt" for split in ("train", "test")},
}
_SCHEMES: dict[tuple[str, ...], tuple[str, Callable[..., Outcome]]] = {
    ("all",): ("nested {}-fold", nested_k_fold),
    ("train", "test"): ("{}-fold on train, then test", k_fold_then_test),
    ("train", "dev", "test"): ("train, dev, test", given_split),
}
_QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")  # TREC's labels 0 to 5
_FOLDS = max(protocol.folds for protocol in PROTOCOLS.values())
_FEWEST = 2 * _FOLDS  # of a label, so that by any protocol every inner fold has one of it
_LAYOUT = "SentEval's layout (downstream/MR/rt-polarity.pos, ..., downstream/SST/binary/...)"

_Row: TypeAlias = tuple[tuple[str, ...], int]


@dataclass(frozen=True)
class Labelled:
    """Labelled sentences, or sentence pairs, in SentEval's order: by length, then by label."""

    sides: tuple[tuple[str, ...], ...]
    """The sentences; of pairs, all first and all second sentences."""
    labels: IntArray


@dataclass(frozen=True)
class TransferTask:
    """One task, as its one undivided set "all" or its splits "train", "dev" and "test"."""

    name: str
    splits: dict[str, Labelled]


@dataclass(frozen=True)
class TransferScore:
    """Accuracies in per cent, rounded as SentEval rounds them, with their protocol.

    Attributes:
        task: one of `TASKS`.
        protocol: how the classifiers are trained, a name in `classifiers.PROTOCOLS`.
        splits: how rows are divided into those to train on, to choose by and to test on.
        test: accuracy on test rows; of nested folds the mean over the outer folds.
        dev: accuracy of the chosen penalty on the rows it was chosen by.
        f1: of label 1 on the test rows, in per cent (MRPC alone).
        n: number of test rows.
        n_dev: number of rows that `dev` is of.
        seed: of folds, initial weights and shuffles.
    """

    task: str
    protocol: str
    splits: str
    test: float
    dev: float
    f1: float | None
    n: int
    n_dev: int
    seed: int


@dataclass(frozen=True)
class TransferResult:
    """Every score of one encoder, and which test rows were classified right."""

    scores: tuple[TransferScore, ...]
    correct: dict[str, NDArray[np.bool_]]
    """Task -> for each test row, for `statistics.paired_bootstrap`."""

    def row(self) -> dict[str, float | None]:
        """The papers' row of test accuracies in per cent: MR CR SUBJ MPQA SST2 TREC MRPC Avg.

        `Avg` is the plain mean of the seven rounded numbers. A task that was not scored is None,
        and so is then the average.
        """
        known = {score.task: score.test for score in self.scores}
        average = round(sum(known.values()) / len(TASKS), 2) if len(known) == len(TASKS) else None
        return {task: known.get(task) for task in TASKS} | {"Avg": average}

    def to_json(self) -> dict[str, Any]:
        """The papers' row, and every score with its protocol."""
        names = sorted({score.protocol for score in self.scores})
        protocols = ", ".join(f"{name} ({PROTOCOLS[name]})" for name in names)
        return {
            "scores": [asdict(score) for score in self.scores],
            "row": self.row(),
            "row_protocol": f"test accuracy in per cent, {protocols}, seed {SEED}; "
            "Avg: plain mean of the seven columns",
        }


def load_transfer(folder: Path, names: Iterable[str] = TASKS) -> dict[str, TransferTask]:
    """Read transfer tasks from a folder in SentEval's layout.

    As in SentEval, a blank line of the binary tasks is an example without a word, and their
    files and TREC's are read as Latin-1.

    Args:
        folder: holds `downstream/MR/...`, or `MR/...`; or is a folder beside `MR`.
        names: which tasks; all seven by default.

    Raises:
        UserError: naming file and line, for a missing file, a row with a wrong number of fields
            or an unknown label; too few examples of a label; an unknown name.
    """
    root = sentevals_root(folder, [*TASKS, "SST"]) or folder
    return {name: _load_task(root, name) for name in names}


def evaluate_transfer(
    encode: Encode, tasks: Mapping[str, TransferTask], protocol: str = "sklearn"
) -> TransferResult:
    """Score an encoder on the tasks; each distinct sentence is encoded once, in one call.

    Args:
        encode: sentences -> `(sentence, dim)`.
        tasks: as `load_transfer` gives them.
        protocol: a name in `classifiers.PROTOCOLS`; "senteval" is the papers'.

    Raises:
        UserError: no such protocol.
    """
    if protocol not in PROTOCOLS:
        raise UserError(f"no protocol {protocol!r}; expected one of {', '.join(PROTOCOLS)}")
    every = [split for task in tasks.values() for split in task.splits.values()]
    rows, embeddings = encode_distinct(
        encode, (text for split in every for side in split.sides for text in side)
    )
    scores, correct = [], {}
    for task in tasks.values():
        features = [_features(rows, embeddings, split) for split in task.splits.values()]
        score, hits = _score(task, features, protocol)
        scores.append(score)
        correct[task.name] = hits
    return TransferResult(tuple(scores), correct)


def _score(
    task: TransferTask, features: Sequence[Features], protocol: str
) -> tuple[TransferScore, NDArray[np.bool_]]:
    """The score of one task by the features of its splits, and which test rows are right."""
    splits, scheme = _SCHEMES[tuple(task.splits)]
    settings = PROTOCOLS[protocol]
    labels = [split.labels for split in task.splits.values()]
    data = [array for split in zip(features, labels, strict=True) for array in split]
    outcome = scheme(settings, *data)
    test = labels[-1]
    f1 = None
    if task.name == "MRPC":
        f1 = round(100 * f1_score(test, outcome.predicted, zero_division=0.0), 2)
    n_dev = len(labels[1] if "dev" in task.splits else labels[0])
    cut = splits.format(settings.folds)
    score = TransferScore(
        task.name, protocol, cut, outcome.test, outcome.dev, f1, len(test), n_dev, SEED
    )
    return score, outcome.predicted == test


def _features(rows: Mapping[str, int], embeddings: Features, split: Labelled) -> Features:
    """The embedding of a sentence u, or `[|u - v|, u * v]` of a pair."""
    sides = [
        embeddings[[rows[text] for text in side]].astype(np.float32, copy=False)
        for side in split.sides
    ]
    if len(sides) == 1:
        return sides[0]
    u, v = sides
    return np.concatenate([np.abs(u - v), u * v], axis=1)


def _load_task(root: Path, name: str) -> TransferTask:
    if name in _BINARY:
        paths = [root / file for file in _BINARY[name]]
        splits = {"all": [row for label in (0, 1) for row in _read_binary(paths[label], label)]}
    elif name in _SPLITS:
        read = {"SST2": _read_sst2, "TREC": _read_trec, "MRPC": _read_mrpc}[name]
        splits = {split: read(root / file) for split, file in _SPLITS[name].items()}
        paths = [root / _SPLITS[name]["train"]]
    else:
        raise UserError(f"no transfer task {name!r}; expected one of {', '.join(TASKS)}")
    for split, rows in splits.items():
        if not rows:
            raise UserError(f"{root}: no example in {name}'s split {split!r}; expected {_LAYOUT}")
    counts = Counter(label for _, label in next(iter(splits.values())))
    for label in range(len(_QUESTIONS) if name == "TREC" else 2):
        if counts[label] < _FEWEST:
            raise UserError(
                f"{' and '.join(map(str, paths))}: {counts[label]} examples of {name}'s label "
                f"{label}; expected at least {_FEWEST}, to cut them into {_FOLDS} folds twice"
            )
    return TransferTask(name, {split: _labelled(rows) for split, rows in splits.items()})


def _labelled(rows: Sequence[_Row]) -> Labelled:
    ordered = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    texts, labels = zip(*ordered, strict=True)
    return Labelled(tuple(zip(*texts, strict=True)), np.array(labels))


def _read_binary(path: Path, label: int) -> list[_Row]:
    return [((_fold(line),), label) for line in _read_latin1(path)]


def _read_sst2(path: Path) -> list[_Row]:
    rows: list[_Row] = []
    for number, line in enumerate(read_lines(path, _LAYOUT), start=1):
        text, label = _fields(path, number, line, 2)
        rows.append(((_fold(text),), _label(path, number, label, ("0", "1"))))
    return rows


def _read_trec(path: Path) -> list[_Row]:
    """Lines such as "NUM:dist How far is it from Denver to Aspen ?"."""
    rows: list[_Row] = []
    for number, line in enumerate(_read_latin1(path), start=1):
        kind, _, question = line.strip().partition(" ")
        label = _label(path, number, kind.partition(":")[0], _QUESTIONS)
        rows.append(((_fold(question),), label))
    return rows


def _read_mrpc(path: Path) -> list[_Row]:
    rows: list[_Row] = []
    for number, line in enumerate(read_lines(path, _LAYOUT)[1:], start=2):
        label, _, _, first, second = _fields(path, number, line, 5)
        rows.append(((_fold(first), _fold(second)), _label(path, number, label, ("0", "1"))))
    return rows


def _read_latin1(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("latin-1").splitlines()
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}); expected {_LAYOUT}") from error


def _fold(text: str) -> str:
    """The words with one space between them."""
    return " ".join(text.split())


def _fields(path: Path, number: int, line: str, width: int) -> list[str]:
    fields = line.strip().split("\t")
    if len(fields) != width:
        raise UserError(
            f"{path}:{number}: {len(fields)} tab-separated fields; expected {width} ({_LAYOUT})"
        )
    return fields


def _label(path: Path, number: int, cell: str, names: Sequence[str]) -> int:
    if cell not in names:
        raise UserError(
            f"{path}:{number}: the label {cell!r} is unknown; expected one of {', '.join(names)}"
        )
    return names.index(cell)
