"""The seven transfer tasks of the papers: logistic regression on frozen embeddings.

Source of the protocol: SentEval (Conneau & Kiela 2018) as SimCSE runs it (Gao et al. 2021). MR, CR,
SUBJ and MPQA use nested cross-validation, SST-2 its own split. TREC and MRPC select on folds of the
training file and test on the test file. `classifiers` has the folds and classifiers, `senteval`
reads the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn.metrics import f1_score

from isospace.errors import UserError
from isospace.evaluation.classifiers import (
    FOLDS,
    PROTOCOL,
    SEED,
    Accuracies,
    Features,
    IntArray,
    given_split,
    k_fold_then_test,
    nested_k_fold,
)
from isospace.evaluation.pairs import Encode, encode_distinct
from isospace.evaluation.senteval import (
    LABELS,
    TRANSFER_NAMES,
    Example,
    find_transfer_root,
    read_labelled,
    training_files,
)
from isospace.evaluation.task import Conditions, Request, Subject, TitledRows, cells, with_average
from isospace.statistics.counts import number_of

_SCHEMES: dict[tuple[str, ...], tuple[str, Callable[..., Accuracies]]] = {
    ("all",): (f"nested {FOLDS}-fold", nested_k_fold),
    ("train", "test"): (f"{FOLDS}-fold on train, then test", k_fold_then_test),
    ("train", "dev", "test"): ("train, dev, test", given_split),
}
_FEWEST = 2 * FOLDS  # examples of a label, so that every inner fold has one


@dataclass(frozen=True)
class Labelled:
    """Labelled sentences, or sentence pairs, in SentEval's order: by length, then by label.

    `sides` are the sentences; for pairs, all first sentences and all second sentences.
    """

    sides: tuple[tuple[str, ...], ...]
    labels: IntArray


TransferSet: TypeAlias = dict[str, Labelled]
"""One task: the undivided set "all", or the splits "train", "dev" and "test"."""


@dataclass(frozen=True)
class TransferScore:
    """Accuracies of one task in per cent, rounded as in SentEval, with their protocol.

    Attributes:
        test: accuracy on test rows; with nested folds the mean over the outer folds.
        dev: accuracy of the selected penalty on the validation rows.
        f1: F1 of label 1 on the test rows, in per cent (MRPC only).
    """

    task: str
    splits: str
    test: float
    dev: float
    f1: float | None
    n: int
    n_dev: int


@dataclass(frozen=True)
class TransferResult:
    """All transfer scores of one encoder."""

    scores: tuple[TransferScore, ...]

    def row(self) -> dict[str, float | None]:
        """Return the papers' test accuracies in per cent: MR CR SUBJ MPQA SST2 TREC MRPC Avg.

        `Avg` is the plain mean of the seven rounded numbers. A task that was not scored is `None`,
        and then `Avg` is `None` too.
        """
        return with_average({score.task: score.test for score in self.scores}, TRANSFER_NAMES)

    def to_json(self) -> dict[str, Any]:
        """Return the papers' row, and every score with its protocol."""
        return {
            "scores": [asdict(score) for score in self.scores],
            "row": self.row(),
            "row_protocol": self.protocol,
        }

    @property
    def protocol(self) -> str:
        """Description of the row's protocol."""
        return (
            f"test accuracy in per cent, SentEval ({PROTOCOL}), seed {SEED}; "
            "Avg: plain mean of the seven columns"
        )

    def tables(self, conditions: Conditions, subsets: bool) -> list[TitledRows]:
        """Return the papers' row."""
        return [TitledRows(f"transfer ({self.protocol})", [cells(self.row())])]


def transfer_task(request: Request) -> Callable[[Subject], TransferResult] | None:
    """Score the seven transfer tasks; optional."""
    if not request.config.transfer or request.folder is None:
        return None
    sets = load_transfer(request.folder)
    return lambda subject: evaluate_transfer(subject.encode_afresh, sets)


def load_transfer(folder: Path) -> dict[str, TransferSet]:
    """Read the seven transfer tasks from a folder in SentEval's layout."""
    root = find_transfer_root(folder)
    return {name: _load_set(root, name) for name in TRANSFER_NAMES}


def evaluate_transfer(encode: Encode, sets: Mapping[str, TransferSet]) -> TransferResult:
    """Score an encoder on the tasks; each distinct sentence is encoded once, in one call."""
    splits = [split for transfer_set in sets.values() for split in transfer_set.values()]
    rows, embeddings = encode_distinct(
        encode, (text for split in splits for side in split.sides for text in side)
    )
    scores = []
    for name, transfer_set in sets.items():
        features = [_features(rows, embeddings, split) for split in transfer_set.values()]
        scores.append(_score(name, transfer_set, features))
    return TransferResult(tuple(scores))


def _score(name: str, transfer_set: TransferSet, features: Sequence[Features]) -> TransferScore:
    """Score one task, given the features of its splits."""
    splits, scheme = _SCHEMES[tuple(transfer_set)]
    labels = [split.labels for split in transfer_set.values()]
    features_and_labels = [array for split in zip(features, labels, strict=True) for array in split]
    accuracies = scheme(*features_and_labels)
    test_labels = labels[-1]
    dev_labels = labels[1] if "dev" in transfer_set else labels[0]
    f1 = None
    if name == "MRPC":
        f1 = round(100 * f1_score(test_labels, accuracies.predicted, zero_division=0.0), 2)
    return TransferScore(
        task=name,
        splits=splits,
        test=accuracies.test,
        dev=accuracies.dev,
        f1=f1,
        n=len(test_labels),
        n_dev=len(dev_labels),
    )


def _features(rows: Mapping[str, int], embeddings: Features, split: Labelled) -> Features:
    """Return the embedding of each sentence, or `[|u - v|, u * v]` of each pair u, v."""
    sides = [
        embeddings[[rows[text] for text in side]].astype(np.float32, copy=False)
        for side in split.sides
    ]
    if len(sides) == 1:
        return sides[0]
    u, v = sides
    return np.concatenate([np.abs(u - v), u * v], axis=1)


def _load_set(root: Path, name: str) -> TransferSet:
    splits = read_labelled(root, name)
    counts = Counter(label for _, label in next(iter(splits.values())))
    for label in range(len(LABELS[name])):
        if counts[label] < _FEWEST:
            files = " and ".join(map(str, training_files(root, name)))
            raise UserError(
                f"{files}: {number_of(counts[label], 'examples')} of {name}'s label {label}. "
                f"Expected at least {_FEWEST}, to cut them into {FOLDS} folds twice"
            )
    return {split: _labelled(rows) for split, rows in splits.items()}


def _labelled(rows: Sequence[Example]) -> Labelled:
    ordered = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    texts, labels = zip(*ordered, strict=True)
    return Labelled(tuple(zip(*texts, strict=True)), np.array(labels))
