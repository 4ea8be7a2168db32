"""Logistic regressions of the transfer tasks: folds and selection of the penalty.

Source: SentEval (Conneau & Kiela 2018) with the settings of SimCSE's evaluation (Gao et al. 2021).
`stacked` trains SentEval's own classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from isospace.evaluation.stacked import SEED, Fold, IntArray, Stacked
from isospace.statistics.correlation import FloatArray

Features: TypeAlias = NDArray[np.float32]
Train: TypeAlias = Callable[[Tensor, Tensor, Sequence[Fold], FloatArray], Tensor]  # see Stacked


@dataclass(frozen=True)
class Protocol:
    """Training of a classifier, and the penalty strengths to select from."""

    train: Train
    grid: tuple[float, ...]
    folds: int = 10
    training: str = ""
    """Description of `train`, for tables."""

    def __str__(self) -> str:
        return f"{self.folds} folds, {self.training}"


@dataclass(frozen=True)
class Accuracies:
    """Accuracies in per cent, rounded as SentEval rounds them, and the predicted test labels."""

    dev: float
    test: float
    predicted: IntArray


def nested_k_fold(protocol: Protocol, x: Features, y: IntArray) -> Accuracies:
    """Score each outer fold with the penalty strength that is best in its inner folds.

    `x` is `(row, dim)`, `y` `(row,)` from 0.

    Returns:
        Mean accuracies over the outer folds, and the predicted label of each row.
    """
    features, labels = torch.from_numpy(x), torch.from_numpy(y)
    splitter = StratifiedKFold(protocol.folds, shuffle=True, random_state=SEED)
    outer = list(splitter.split(x, y))
    inner = [
        Fold(train[part], train[valid])
        for train, _ in outer
        for part, valid in splitter.split(x[train], y[train])
    ]
    shares = _search(protocol, features, labels, inner)
    shares = shares.reshape(protocol.folds, protocol.folds, -1)
    dev = _per_cent(shares.mean(axis=1))
    strengths = np.array(protocol.grid)[dev.argmax(axis=1), None]
    weights = protocol.train(features, labels, [Fold(train) for train, _ in outer], strengths)
    predicted = np.empty_like(y)
    for (_, test), weight in zip(outer, weights, strict=True):
        predicted[test] = predict(weight, features[test])[0]
    accuracies = [_per_cent(np.mean(predicted[test] == y[test])) for _, test in outer]
    mean_dev, mean_test = np.round([np.mean(dev.max(axis=1)), np.mean(accuracies)], 2)
    return Accuracies(float(mean_dev), float(mean_test), predicted)


def k_fold_then_test(
    protocol: Protocol, x: Features, y: IntArray, x_test: Features, y_test: IntArray
) -> Accuracies:
    """Score the test rows with the penalty strength that is best in folds of the training rows.

    Arguments as for `nested_k_fold`, with features and labels of the test rows.
    """
    features, labels = torch.from_numpy(x), torch.from_numpy(y)
    splitter = StratifiedKFold(protocol.folds, shuffle=True, random_state=SEED)
    folds = [Fold(train, valid) for train, valid in splitter.split(x, y)]
    dev = _per_cent(_search(protocol, features, labels, folds).mean(axis=0))
    strength = np.array([[protocol.grid[dev.argmax()]]])
    weights = protocol.train(features, labels, [Fold(np.arange(len(y)))], strength)
    return _accuracies(dev, weights[0], x_test, y_test)


def given_split(
    protocol: Protocol,
    x: Features,
    y: IntArray,
    x_dev: Features,
    y_dev: IntArray,
    x_test: Features,
    y_test: IntArray,
) -> Accuracies:
    """Score the test rows with the penalty strength that is best on the dev rows.

    Arguments as for `nested_k_fold`, with features and labels of the dev and test rows.
    """
    features = torch.from_numpy(np.concatenate([x, x_dev]))
    labels = torch.from_numpy(np.concatenate([y, y_dev]))
    train, valid = np.split(np.arange(len(labels)), [len(y)])
    weights = protocol.train(features, labels, [Fold(train, valid)], np.array([protocol.grid]))[0]
    dev = _per_cent((predict(weights, features[valid]) == y_dev).mean(axis=1))
    # SentEval trains the best classifier again with the same seed, which gives the same classifier.
    return _accuracies(dev, weights[[dev.argmax()]], x_test, y_test)


def train_sklearn(x: Tensor, y: Tensor, folds: Sequence[Fold], c: FloatArray) -> Tensor:
    """Train scikit-learn's logistic regression to convergence.

    Arguments as for `Stacked.__call__`, except `c`: inverse penalty strengths `(fold, strength)`.
    """
    features, labels = x.numpy(), y.numpy()
    weights = torch.zeros(*c.shape, int(y.max()) + 1, x.shape[1] + 1)
    for i, fold in enumerate(folds):
        # One strength's weights are a good start for the next.
        model = LogisticRegression(max_iter=1000, warm_start=True)
        for j, strength in enumerate(c[i]):
            model.set_params(C=strength).fit(features[fold.train], labels[fold.train])
            fitted = np.column_stack([model.coef_, model.intercept_])
            # With two classes only the second has weights.
            weights[i, j, -len(fitted) :] = torch.from_numpy(fitted)
    return weights


_L2 = (1e-5, 1e-4, 1e-3, 1e-2)
_PAPERS = Stacked("Adam", batch=64, epochs_per_look=4, tenacity=5)
_FAST = Stacked("RMSprop", batch=128, epochs_per_look=2, tenacity=3)

PROTOCOLS: dict[str, Protocol] = {
    "senteval": Protocol(_PAPERS, _L2, training=str(_PAPERS)),
    "senteval-fast": Protocol(_FAST, _L2, folds=5, training=str(_FAST)),
    "sklearn": Protocol(train_sklearn, (0.25, 1.0, 4.0, 16.0), training="to convergence"),
}
"""`senteval` is the protocol of the papers. `senteval-fast` is SentEval's advice for prototypes
(SimCSE's modes dev and fasttest). `sklearn` has the papers' folds and another classifier."""


def predict(weights: Tensor, x: Tensor) -> IntArray:
    """Return the labels `(strength, row)` that weights `(strength, class, dim + 1)` predict."""
    logits = weights[..., :-1] @ x.T + weights[..., -1:]
    return np.asarray(logits.argmax(dim=1))


def _search(protocol: Protocol, x: Tensor, y: Tensor, folds: Sequence[Fold]) -> FloatArray:
    """Return the accuracy of each strength on each fold's `valid` rows, `(fold, strength)`."""
    weights = protocol.train(x, y, folds, np.tile(protocol.grid, (len(folds), 1)))
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
