"""The seven transfer tasks of the papers: logistic regression on frozen embeddings.

Source: SentEval (Conneau & Kiela 2018) as SimCSE runs it (Gao et al. 2021). MR, CR, SUBJ and MPQA
use nested cross-validation, SST-2 its own split. TREC and MRPC select on folds of the training file
and test on the test file. `senteval` reads the files.

SentEval trains one linear classifier after the other. `train_stacked` trains those with equal
training size in one tensor computation, with the same draws, order of updates and stopping rule, so
that the accuracies are those of SentEval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from isospace.errors import UserError, number_of
from isospace.evaluation.pairs import Encode, encode_distinct
from isospace.evaluation.senteval import (
    LABELS,
    TRANSFER_NAMES,
    Labelled,
    find_root,
    read_labelled,
)
from isospace.evaluation.task import Conditions, Request, TitledRows, cells, with_average
from isospace.statistics.gains import FloatArray

IntArray: TypeAlias = NDArray[np.int64]
Features: TypeAlias = NDArray[np.float32]

SEED = 1111
"""Seed of folds, initial weights and shuffles; SentEval seeds again for every classifier."""
FOLDS = 10
STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2)
"""L2 penalties to select from."""
BATCH, EPOCHS_PER_LOOK, TENACITY = 64, 4, 5
PROTOCOL = (
    f"{FOLDS} folds, Adam in batches of {BATCH}, a look every {EPOCHS_PER_LOOK} epochs, tenacity "
    f"{TENACITY}"
)
"""Description of the papers' protocol, for tables."""

_EPOCHS = 200  # SentEval continues until more epochs than these are done
_HELD_OUT = 0.05


@dataclass(frozen=True)
class Fold:
    """Rows that a classifier is trained on, and rows that decide when training stops."""

    train: IntArray
    valid: IntArray | None = None
    """Default: a twentieth of `train` is held out."""


def train_stacked(x: Tensor, y: Tensor, folds: Sequence[Fold], l2: FloatArray) -> Tensor:
    """Train a classifier for every fold and penalty; keep those with the best accuracy on `valid`.

    Training ends after more than `TENACITY` checks without a new best accuracy. These checks need
    not follow each other (SentEval's rule).

    `x` are features `(row, dim)` in float32, `y` labels `(row,)` from 0 and `l2` penalties
    `(fold, strength)`; the strengths of a fold share their batches. The result are weights
    `(fold, strength, class, dim + 1)`, the bias last.
    """
    weights = _initial_weights(x.shape[1], int(y.max()) + 1).repeat(*l2.shape, 1, 1)
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
    sizes = np.array([len(fold.train) for fold in folds])
    for size in np.unique(sizes):
        equal = np.flatnonzero(sizes == size).tolist()
        penalties = torch.from_numpy(l2[equal]).float()[..., None, None]
        weights[equal] = _train_equal(x, y, [folds[i] for i in equal], weights[equal], penalties)
    return weights


def _train_equal(
    x: Tensor, y: Tensor, folds: Sequence[Fold], weights: Tensor, l2: Tensor
) -> Tensor:
    """Train folds of equal size, which share all shuffles and steps; return the best weights."""
    random = np.random.RandomState(SEED)  # the generator behind SentEval's np.random
    train, valid = _rows(folds, random)
    one_hot = torch.nn.functional.one_hot(y).float()
    best = weights.clone()
    highest = torch.full(best.shape[:2], -1.0, dtype=torch.float64)
    misses = torch.zeros(best.shape[:2], dtype=torch.int64)
    left = torch.arange(len(folds))
    # Adam updates each weight by its own history alone, so that stacked classifiers take the same
    # steps as single ones. SentEval adds the penalty's gradient.
    optimizer = torch.optim.Adam([weights])
    for _ in range(0, _EPOCHS + 1, EPOCHS_PER_LOOK):
        for _ in range(EPOCHS_PER_LOOK):
            order = torch.from_numpy(random.permutation(train.shape[1]))
            for start in range(0, len(order), BATCH):
                batch = train[:, order[start : start + BATCH]]
                weights.grad = _gradient(weights, x, one_hot, batch).addcmul_(weights, l2)
                optimizer.step()
        correct = [
            (fold_weights @ x[valid[i]].T).argmax(dim=1) == y[valid[i]]
            for i, fold_weights in zip(left.tolist(), weights, strict=True)
        ]
        accuracy = torch.stack([hits.double().mean(dim=1) for hits in correct])
        going = misses[left] <= TENACITY
        better = going & (accuracy > highest[left])
        highest[left] = torch.where(better, accuracy, highest[left])
        best[left] = torch.where(better[..., None, None], weights, best[left])
        misses[left] += (going & ~better).long()
        stay = (misses[left] <= TENACITY).any(dim=1)
        if not stay.any():
            break
        if not stay.all():
            [history] = optimizer.state.values()
            left, train, weights, l2 = left[stay], train[stay], weights[stay], l2[stay]
            optimizer = torch.optim.Adam([weights])
            # Adam has a single count of steps for all weights.
            optimizer.state[weights] = {
                name: value[stay] if value.ndim else value for name, value in history.items()
            }
    return best


def _initial_weights(dim: int, classes: int) -> Tensor:
    """Return the initial weights of torch's linear layer, `(class, dim + 1)`."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)  # not the GPU's, which is not restored
        layer = torch.nn.Linear(dim, classes)
    return torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1)


def _rows(folds: Sequence[Fold], random: np.random.RandomState) -> tuple[Tensor, list[Tensor]]:
    """Return training rows `(fold, row)`, and for each fold the rows that decide when to stop."""
    train = torch.from_numpy(np.stack([fold.train for fold in folds]))
    given = [torch.from_numpy(fold.valid) for fold in folds if fold.valid is not None]
    if given:
        return train, given
    order = torch.from_numpy(random.permutation(train.shape[1]))
    cut = int(_HELD_OUT * len(order))
    return train[:, order[cut:]], list(train[:, order[:cut]])


def _gradient(weights: Tensor, x: Tensor, one_hot: Tensor, rows: Tensor) -> Tensor:
    """Return the gradient of each classifier's mean cross-entropy over `rows` (fold, row)."""
    folds, batch = rows.shape
    inputs = x.index_select(0, rows.flatten()).view(folds, batch, -1)
    targets = one_hot.index_select(0, rows.flatten()).view(folds, 1, batch, -1).mT
    logits = torch.bmm(weights.flatten(1, 2), inputs.mT).view(*weights.shape[:3], batch)
    errors = logits.softmax(dim=2).sub_(targets).div_(batch)
    return torch.bmm(errors.flatten(1, 2), inputs).view_as(weights)


@dataclass(frozen=True)
class Accuracies:
    """Accuracies in per cent, rounded as SentEval rounds them, and the predicted test labels."""

    dev: float
    test: float
    predicted: IntArray


def nested_k_fold(x: Features, y: IntArray) -> Accuracies:
    """Score each outer fold with the penalty strength that is best in its inner folds.

    `x` is `(row, dim)`, `y` `(row,)` from 0. The accuracies are means over the outer folds.
    """
    features, labels = torch.from_numpy(x), torch.from_numpy(y)
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    outer = list(splitter.split(x, y))
    inner = [
        Fold(train[part], train[valid])
        for train, _ in outer
        for part, valid in splitter.split(x[train], y[train])
    ]
    shares = _search(features, labels, inner).reshape(FOLDS, FOLDS, -1)
    dev = _per_cent(shares.mean(axis=1))
    strengths = np.array(STRENGTHS)[dev.argmax(axis=1), None]
    weights = train_stacked(features, labels, [Fold(train) for train, _ in outer], strengths)
    predicted = np.empty_like(y)
    for (_, test), weight in zip(outer, weights, strict=True):
        predicted[test] = predict(weight, features[test])[0]
    accuracies = [_per_cent(np.mean(predicted[test] == y[test])) for _, test in outer]
    mean_dev, mean_test = np.round([np.mean(dev.max(axis=1)), np.mean(accuracies)], 2)
    return Accuracies(float(mean_dev), float(mean_test), predicted)


def k_fold_then_test(x: Features, y: IntArray, x_test: Features, y_test: IntArray) -> Accuracies:
    """Score the test rows with the penalty strength that is best in folds of the training rows."""
    features, labels = torch.from_numpy(x), torch.from_numpy(y)
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    folds = [Fold(train, valid) for train, valid in splitter.split(x, y)]
    dev = _per_cent(_search(features, labels, folds).mean(axis=0))
    strength = np.array([[STRENGTHS[dev.argmax()]]])
    weights = train_stacked(features, labels, [Fold(np.arange(len(y)))], strength)
    return _accuracies(dev, weights[0], x_test, y_test)


def given_split(
    x: Features,
    y: IntArray,
    x_dev: Features,
    y_dev: IntArray,
    x_test: Features,
    y_test: IntArray,
) -> Accuracies:
    """Score the test rows with the penalty strength that is best on the dev rows."""
    features = torch.from_numpy(np.concatenate([x, x_dev]))
    labels = torch.from_numpy(np.concatenate([y, y_dev]))
    train, valid = np.split(np.arange(len(labels)), [len(y)])
    weights = train_stacked(features, labels, [Fold(train, valid)], np.array([STRENGTHS]))[0]
    dev = _per_cent((predict(weights, features[valid]) == y_dev).mean(axis=1))
    # SentEval trains the best classifier again with the same seed, which gives the same classifier.
    return _accuracies(dev, weights[[dev.argmax()]], x_test, y_test)


def predict(weights: Tensor, x: Tensor) -> IntArray:
    """Return the labels `(strength, row)` that weights `(strength, class, dim + 1)` predict."""
    logits = weights[..., :-1] @ x.T + weights[..., -1:]
    return np.asarray(logits.argmax(dim=1))


def _search(x: Tensor, y: Tensor, folds: Sequence[Fold]) -> FloatArray:
    """Return the accuracy of each strength on each fold's `valid` rows, `(fold, strength)`."""
    weights = train_stacked(x, y, folds, np.tile(STRENGTHS, (len(folds), 1)))
    shares = [
        (predict(weight, x[fold.valid]) == y[fold.valid].numpy()).mean(axis=1)
        for fold, weight in zip(folds, weights, strict=True)
    ]
    return np.array(shares)


def _accuracies(dev: FloatArray, weights: Tensor, x_test: Features, y_test: IntArray) -> Accuracies:
    predicted = predict(weights, torch.from_numpy(x_test))[0]
    return Accuracies(float(dev.max()), float(_per_cent(np.mean(predicted == y_test))), predicted)


def _per_cent(share: FloatArray) -> FloatArray:
    """Return per cent, rounded to two decimals as SentEval does before it compares and averages."""
    return np.round(100 * share, 2)


_SCHEMES: dict[tuple[str, ...], tuple[str, Callable[..., Accuracies]]] = {
    ("all",): (f"nested {FOLDS}-fold", nested_k_fold),
    ("train", "test"): (f"{FOLDS}-fold on train, then test", k_fold_then_test),
    ("train", "dev", "test"): ("train, dev, test", given_split),
}

TransferSet: TypeAlias = dict[str, Labelled]
"""One task: the undivided set "all", or the splits "train", "dev" and "test"."""


@dataclass(frozen=True)
class TransferScore:
    """Accuracies of one task in per cent, rounded as in SentEval, with their protocol."""

    task: str
    splits: str
    test: float
    dev: float
    n: int
    n_dev: int


@dataclass(frozen=True)
class TransferResult:
    """All transfer scores of one encoder."""

    scores: tuple[TransferScore, ...]

    def row(self) -> dict[str, float]:
        """Return the papers' test accuracies in per cent and their mean."""
        return with_average({score.task: score.test for score in self.scores})

    def to_json(self) -> dict[str, Any]:
        """Return the papers' row, and every score."""
        return {
            "scores": [asdict(score) for score in self.scores],
            "row": self.row(),
            "row_protocol": self.protocol,
        }

    @property
    def protocol(self) -> str:
        """Protocol of the row."""
        return (
            f"test accuracy in per cent, SentEval ({PROTOCOL}), seed {SEED}; "
            "Avg: plain mean of the seven columns"
        )

    def tables(self, conditions: Conditions) -> list[TitledRows]:
        """Return the papers' row."""
        return [TitledRows(f"transfer ({self.protocol})", [cells(self.row())])]


def transfer_task(request: Request) -> Callable[[Encode], TransferResult] | None:
    """Score the seven transfer tasks; optional."""
    if not request.config.transfer or request.folder is None:
        return None
    sets = load_transfer(request.folder)
    return lambda encode: evaluate_transfer(encode, sets)


def load_transfer(folder: Path) -> dict[str, TransferSet]:
    """Read the seven transfer tasks from a folder in SentEval's layout."""
    root = find_root(folder)
    sets = {name: read_labelled(root, name) for name in TRANSFER_NAMES}
    for name, splits in sets.items():
        trained_on = next(iter(splits.values())).labels
        fewest = int(np.bincount(trained_on, minlength=len(LABELS[name])).min())
        if fewest < 2 * FOLDS:
            raise UserError(
                f"{root}: a label of {name} has {number_of(fewest, 'training examples')}. Expected "
                f"at least {2 * FOLDS}, to cut them into {FOLDS} folds twice"
            )
    return sets


def evaluate_transfer(encode: Encode, sets: Mapping[str, TransferSet]) -> TransferResult:
    """Score an encoder on the tasks; each distinct sentence is encoded once."""
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
    counts = len(test_labels), len(dev_labels)
    return TransferScore(name, splits, accuracies.test, accuracies.dev, *counts)


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
