"""Logistic regressions of the transfer tasks: every fold and every strength at once.

Source: SentEval (Conneau & Kiela 2018) with the settings of SimCSE's evaluation (Gao et al. 2021):
a linear layer, cross-entropy, Adam in batches of 64, early stopping. SentEval trains one classifier
after the other. Here those of equal training size are one tensor computation with SentEval's random
draws, order of updates and rule for stopping, so that the accuracies stay SentEval's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from isospace.evaluation.correlation import FloatArray

IntArray: TypeAlias = NDArray[np.int64]
Features: TypeAlias = NDArray[np.float32]

SEED = 1111
"""Of folds, initial weights and shuffles; SentEval seeds anew for every classifier."""

FOLDS = 10
_BATCH = 64
_LEARNING_RATE, _BETAS, _EPSILON = 1e-3, (0.9, 0.999), 1e-8  # Adam's own defaults
_EPOCHS_PER_CHECK = 4
_CHECKS = 51  # SentEval begins another four epochs as long as no more than 200 are done
_TENACITY = 5
_HELD_OUT = 0.05


@dataclass(frozen=True)
class Fold:
    """Rows that a classifier is trained on, and rows that decide when training stops."""

    train: IntArray
    valid: IntArray | None = None
    """`None`: a twentieth of `train` is held out for it."""


Train: TypeAlias = Callable[[Tensor, Tensor, Sequence[Fold], FloatArray], Tensor]  # train_adam


@dataclass(frozen=True)
class Protocol:
    """How a classifier is trained, and the strengths of the penalty that are tried."""

    train: Train
    grid: tuple[float, ...]


@dataclass(frozen=True)
class Outcome:
    """Accuracies in per cent, rounded as SentEval rounds them, and the predicted test labels."""

    dev: float
    test: float
    predicted: IntArray


def nested_k_fold(protocol: Protocol, x: Features, y: IntArray) -> Outcome:
    """Ten folds, each with the strength that is best in ten folds of its training rows.

    Args:
        protocol: how to train.
        x: features `(row, dim)`.
        y: labels `(row,)` from 0.

    Returns:
        Mean accuracies over the outer folds, and the label predicted for each row.
    """
    features, labels = torch.from_numpy(x), torch.from_numpy(y)
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    outer = list(splitter.split(x, y))
    inner = [
        Fold(train[part], train[valid])
        for train, _ in outer
        for part, valid in splitter.split(x[train], y[train])
    ]
    shares = _search(protocol, features, labels, inner).reshape(FOLDS, FOLDS, -1)
    dev = _per_cent(shares.mean(axis=1))
    strengths = np.array(protocol.grid)[dev.argmax(axis=1), None]
    weights = protocol.train(features, labels, [Fold(train) for train, _ in outer], strengths)
    predicted = np.empty_like(y)
    for (_, test), weight in zip(outer, weights, strict=True):
        predicted[test] = predict(weight, features[test])[0]
    accuracies = [_per_cent(np.mean(predicted[test] == y[test])) for _, test in outer]
    mean_dev, mean_test = np.round([np.mean(dev.max(axis=1)), np.mean(accuracies)], 2)
    return Outcome(float(mean_dev), float(mean_test), predicted)


def k_fold_then_test(
    protocol: Protocol, x: Features, y: IntArray, x_test: Features, y_test: IntArray
) -> Outcome:
    """The strength that is best in ten folds of the training rows; then all of them, and the test.

    Args as in `nested_k_fold`, with the features and labels of the test rows.
    """
    features, labels = torch.from_numpy(x), torch.from_numpy(y)
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    folds = [Fold(train, valid) for train, valid in splitter.split(x, y)]
    dev = _per_cent(_search(protocol, features, labels, folds).mean(axis=0))
    strength = np.array([[protocol.grid[dev.argmax()]]])
    weights = protocol.train(features, labels, [Fold(np.arange(len(y)))], strength)
    return _outcome(dev, weights[0], x_test, y_test)


def given_split(
    protocol: Protocol,
    x: Features,
    y: IntArray,
    x_dev: Features,
    y_dev: IntArray,
    x_test: Features,
    y_test: IntArray,
) -> Outcome:
    """The strength that is best on the dev rows, which also decide when to stop; then the test.

    Args as in `nested_k_fold`, with the features and labels of the dev and test rows.
    """
    features = torch.from_numpy(np.concatenate([x, x_dev]))
    labels = torch.from_numpy(np.concatenate([y, y_dev]))
    train, valid = np.split(np.arange(len(labels)), [len(y)])
    weights = protocol.train(features, labels, [Fold(train, valid)], np.array([protocol.grid]))[0]
    dev = _per_cent((predict(weights, features[valid]) == y_dev).mean(axis=1))
    # SentEval trains the best one again, with the same draws: it is the same classifier.
    return _outcome(dev, weights[[dev.argmax()]], x_test, y_test)


def train_adam(x: Tensor, y: Tensor, folds: Sequence[Fold], l2: FloatArray) -> Tensor:
    """SentEval's classifier: Adam, the penalty's gradient added to the loss's, early stopping.

    Accuracy on the fold's `valid` is looked at after every fourth epoch, and the best look's
    weights are kept. The sixth look that brings no new best ends training, even where bests lie
    between those six (SentEval's rule).

    Args:
        x: features `(row, dim)`, float32.
        y: labels `(row,)`, int64, from 0.
        folds: the rows of each classifier.
        l2: penalties `(fold, strength)`; those of a fold share their batches.

    Returns:
        Weights `(fold, strength, class, dim + 1)`, the bias last.
    """
    weights = _initial_weights(x.shape[1], int(y.max()) + 1).repeat(*l2.shape, 1, 1)
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
    sizes = np.array([len(fold.train) for fold in folds])
    for size in np.unique(sizes):
        equal = np.flatnonzero(sizes == size).tolist()
        adam = _Adam(weights[equal], torch.from_numpy(l2[equal]).float())
        weights[equal] = _train_equal(x, y, [folds[i] for i in equal], adam)
    return weights


def train_sklearn(x: Tensor, y: Tensor, folds: Sequence[Fold], c: FloatArray) -> Tensor:
    """scikit-learn's logistic regression, trained to convergence; no rows decide when to stop.

    Args as in `train_adam`, but for `c`: inverse strengths of the penalty `(fold, strength)`.
    """
    features, labels = x.numpy(), y.numpy()
    weights = torch.zeros(*c.shape, int(y.max()) + 1, x.shape[1] + 1)
    for i, fold in enumerate(folds):
        # One strength's weights are a good start for the next.
        model = LogisticRegression(max_iter=1000, warm_start=True)
        for j, strength in enumerate(c[i]):
            model.set_params(C=strength).fit(features[fold.train], labels[fold.train])
            fitted = np.column_stack([model.coef_, model.intercept_])
            # Of two classes only the second has weights.
            weights[i, j, -len(fitted) :] = torch.from_numpy(fitted)
    return weights


ProtocolName = Literal["senteval", "sklearn"]
PROTOCOLS: dict[str, Protocol] = {
    "senteval": Protocol(train_adam, (1e-5, 1e-4, 1e-3, 1e-2)),
    "sklearn": Protocol(train_sklearn, (0.25, 1.0, 4.0, 16.0)),
}
"""`senteval` is the papers'; `sklearn` has the same folds and another way to the classifier."""


def predict(weights: Tensor, x: Tensor) -> IntArray:
    """Labels `(strength, row)` by weights `(strength, class, dim + 1)`."""
    logits = weights[..., :-1] @ x.T + weights[..., -1:]
    return np.asarray(logits.argmax(dim=1))


def _search(protocol: Protocol, x: Tensor, y: Tensor, folds: Sequence[Fold]) -> FloatArray:
    """Accuracy of every strength on the `valid` rows of every fold, `(fold, strength)`."""
    weights = protocol.train(x, y, folds, np.tile(protocol.grid, (len(folds), 1)))
    shares = [
        (predict(weight, x[fold.valid]) == y[fold.valid].numpy()).mean(axis=1)
        for fold, weight in zip(folds, weights, strict=True)
    ]
    return np.array(shares)


def _outcome(dev: FloatArray, weights: Tensor, x_test: Features, y_test: IntArray) -> Outcome:
    predicted = predict(weights, torch.from_numpy(x_test))[0]
    return Outcome(float(dev.max()), float(_per_cent(np.mean(predicted == y_test))), predicted)


def _per_cent(share: FloatArray) -> FloatArray:
    """With two decimals: SentEval compares and averages rounded numbers."""
    return np.round(100 * share, 2)


def _initial_weights(dim: int, classes: int) -> Tensor:
    """What a linear layer of torch starts from, `(class, dim + 1)`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        layer = torch.nn.Linear(dim, classes)
    return torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1)


class _Adam:
    """Adam as `torch.optim.Adam` computes it, for stacked classifiers of which some may leave."""

    def __init__(self, weights: Tensor, l2: Tensor) -> None:
        self.weights, self.l2 = weights, l2[..., None, None]
        self.mean, self.square = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = 0

    def step(self, gradient: Tensor) -> None:
        self.steps += 1
        first, second = (1 - beta**self.steps for beta in _BETAS)
        gradient.addcmul_(self.weights, self.l2)
        self.mean.lerp_(gradient, 1 - _BETAS[0])
        self.square.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
        scale = self.square.sqrt().div_(second**0.5).add_(_EPSILON)
        self.weights.addcdiv_(self.mean, scale, value=-_LEARNING_RATE / first)

    def keep(self, folds: Tensor) -> None:
        self.weights, self.l2 = self.weights[folds], self.l2[folds]
        self.mean, self.square = self.mean[folds], self.square[folds]


def _train_equal(x: Tensor, y: Tensor, folds: Sequence[Fold], adam: _Adam) -> Tensor:
    """Train folds of equal size, which share every shuffle and take every step together.

    Returns the best weights. A fold leaves the computation once all its strengths have stopped.
    """
    random = np.random.RandomState(SEED)  # the generator behind SentEval's np.random
    train, valid = _rows(folds, random)
    one_hot = torch.nn.functional.one_hot(y).float()
    best = adam.weights.clone()
    highest = torch.full(best.shape[:2], -1.0, dtype=torch.float64)
    misses = torch.zeros(best.shape[:2], dtype=torch.int64)
    left = torch.arange(len(folds))
    for _ in range(_CHECKS):
        for _ in range(_EPOCHS_PER_CHECK):
            order = torch.from_numpy(random.permutation(train.shape[1]))
            for start in range(0, len(order), _BATCH):
                batch = train[:, order[start : start + _BATCH]]
                adam.step(_gradient(adam.weights, x, one_hot, batch))
        correct = [
            (weights @ x[valid[i]].T).argmax(dim=1) == y[valid[i]]
            for i, weights in zip(left.tolist(), adam.weights, strict=True)
        ]
        accuracy = torch.stack([hits.double().mean(dim=1) for hits in correct])
        going = misses[left] <= _TENACITY
        better = going & (accuracy > highest[left])
        highest[left] = torch.where(better, accuracy, highest[left])
        best[left] = torch.where(better[..., None, None], adam.weights, best[left])
        misses[left] += (going & ~better).long()
        stay = (misses[left] <= _TENACITY).any(dim=1)
        if not stay.any():
            break
        left, train = left[stay], train[stay]
        adam.keep(stay)
    return best


def _rows(folds: Sequence[Fold], random: np.random.RandomState) -> tuple[Tensor, list[Tensor]]:
    """Rows to train on, `(fold, row)`, and of each fold those that decide when to stop."""
    train = torch.from_numpy(np.stack([fold.train for fold in folds]))
    given = [torch.from_numpy(fold.valid) for fold in folds if fold.valid is not None]
    if given:
        return train, given
    order = torch.from_numpy(random.permutation(train.shape[1]))
    cut = int(_HELD_OUT * len(order))
    return train[:, order[cut:]], list(train[:, order[:cut]])


def _gradient(weights: Tensor, x: Tensor, one_hot: Tensor, rows: Tensor) -> Tensor:
    """Of the mean cross-entropy of each classifier over its fold's batch, `rows` (fold, row)."""
    folds, batch = rows.shape
    inputs = x.index_select(0, rows.flatten()).view(folds, batch, -1)
    targets = one_hot.index_select(0, rows.flatten()).view(folds, 1, batch, -1).mT
    logits = torch.bmm(weights.flatten(1, 2), inputs.mT).view(*weights.shape[:3], batch)
    errors = logits.softmax(dim=2).sub_(targets).div_(batch)
    return torch.bmm(errors.flatten(1, 2), inputs).view_as(weights)
