"""SentEval's classifiers: those of equal training size are one tensor computation.

Source: SentEval (Conneau & Kiela 2018): a linear layer, cross-entropy, one of torch's optimizers,
early stopping. SentEval trains one classifier after the other. Here the draws, the order of updates
and the rule for stopping are its own, so that the accuracies stay SentEval's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from isospace.statistics.correlation import FloatArray

IntArray: TypeAlias = NDArray[np.int64]

SEED = 1111
"""Of folds, initial weights and shuffles; SentEval seeds anew for every classifier."""

_EPOCHS = 200  # SentEval goes on to the next look as long as no more than these are done
_HELD_OUT = 0.05


@dataclass(frozen=True)
class Fold:
    """Rows that a classifier is trained on, and rows that decide when training stops."""

    train: IntArray
    valid: IntArray | None = None
    """`None`: a twentieth of `train` is held out for it."""


@dataclass(frozen=True)
class Stacked:
    """SentEval's training: the penalty's gradient is added to the loss's, and it stops early.

    Accuracy on the fold's `valid` is looked at after every few epochs, and the best look's weights
    are kept. Training ends once more looks than `tenacity` have brought no new best, even where
    bests lie between those looks (SentEval's rule).
    """

    optimizer: Literal["Adam", "RMSprop"]
    """A class of `torch.optim`, with torch's own settings; SentEval adds the penalty."""
    batch: int
    epochs_per_look: int
    tenacity: int

    def __str__(self) -> str:
        return (
            f"{self.optimizer} in batches of {self.batch}, a look every {self.epochs_per_look} "
            f"epochs, tenacity {self.tenacity}"
        )

    def __call__(self, x: Tensor, y: Tensor, folds: Sequence[Fold], l2: FloatArray) -> Tensor:
        """Train a classifier for every fold and strength.

        `x` is `(row, dim)` float32, `y` `(row,)` int64 from 0, `l2` `(fold, strength)`; strengths
        of a fold share their batches. Weights are `(fold, strength, class, dim + 1)`, the bias
        last.
        """
        weights = _initial_weights(x.shape[1], int(y.max()) + 1).repeat(*l2.shape, 1, 1)
        x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
        sizes = np.array([len(fold.train) for fold in folds])
        for size in np.unique(sizes):
            equal = np.flatnonzero(sizes == size).tolist()
            penalties = torch.from_numpy(l2[equal]).float()[..., None, None]
            weights[equal] = self._train_equal(
                x, y, [folds[i] for i in equal], weights[equal], penalties
            )
        return weights

    def _train_equal(
        self, x: Tensor, y: Tensor, folds: Sequence[Fold], weights: Tensor, l2: Tensor
    ) -> Tensor:
        """Train folds of equal size, which share every shuffle and take every step together.

        Returns the best weights. A fold leaves the computation once all its strengths have stopped.
        """
        random = np.random.RandomState(SEED)  # the generator behind SentEval's np.random
        train, valid = _rows(folds, random)
        one_hot = torch.nn.functional.one_hot(y).float()
        best = weights.clone()
        highest = torch.full(best.shape[:2], -1.0, dtype=torch.float64)
        misses = torch.zeros(best.shape[:2], dtype=torch.int64)
        left = torch.arange(len(folds))
        # Adam and RMSprop move every weight by its own history alone: stacked classifiers take the
        # steps that each would take by itself.
        make_optimizer: Callable[[list[Tensor]], Optimizer] = getattr(torch.optim, self.optimizer)
        optimizer = make_optimizer([weights])
        for _ in range(0, _EPOCHS + 1, self.epochs_per_look):
            for _ in range(self.epochs_per_look):
                order = torch.from_numpy(random.permutation(train.shape[1]))
                for start in range(0, len(order), self.batch):
                    batch = train[:, order[start : start + self.batch]]
                    weights.grad = _gradient(weights, x, one_hot, batch).addcmul_(weights, l2)
                    optimizer.step()
            correct = [
                (fold_weights @ x[valid[i]].T).argmax(dim=1) == y[valid[i]]
                for i, fold_weights in zip(left.tolist(), weights, strict=True)
            ]
            accuracy = torch.stack([hits.double().mean(dim=1) for hits in correct])
            going = misses[left] <= self.tenacity
            better = going & (accuracy > highest[left])
            highest[left] = torch.where(better, accuracy, highest[left])
            best[left] = torch.where(better[..., None, None], weights, best[left])
            misses[left] += (going & ~better).long()
            stay = (misses[left] <= self.tenacity).any(dim=1)
            if not stay.any():
                break
            if not stay.all():
                [history] = optimizer.state.values()
                left, train, weights, l2 = left[stay], train[stay], weights[stay], l2[stay]
                optimizer = make_optimizer([weights])
                # Adam's count of steps is one number for all.
                optimizer.state[weights] = {
                    name: value[stay] if value.ndim else value for name, value in history.items()
                }
        return best


def _initial_weights(dim: int, classes: int) -> Tensor:
    """Return the initial weights of a linear layer of torch, `(class, dim + 1)`."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)  # and no GPU's, which would not be put back
        layer = torch.nn.Linear(dim, classes)
    return torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1)


def _rows(folds: Sequence[Fold], random: np.random.RandomState) -> tuple[Tensor, list[Tensor]]:
    """Return rows to train on, `(fold, row)`, and each fold's rows that decide when to stop."""
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
