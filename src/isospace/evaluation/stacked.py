"""SentEval's classifiers; classifiers with equal training size are one tensor computation.

Source: SentEval (Conneau & Kiela 2018): a linear layer, cross-entropy, an optimizer of torch, early
stopping. SentEval trains one classifier after the other. This code has the same draws, order of
updates and stopping rule, so that the accuracies are those of SentEval.
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
"""Seed of folds, initial weights and shuffles; SentEval seeds again for every classifier."""

_EPOCHS = 200  # SentEval continues until more epochs than these are done
_HELD_OUT = 0.05


@dataclass(frozen=True)
class Fold:
    """Rows that a classifier is trained on, and rows that decide when training stops."""

    train: IntArray
    valid: IntArray | None = None
    """Default: a twentieth of `train` is held out."""


@dataclass(frozen=True)
class Stacked:
    """SentEval's training with an L2 penalty and early stopping.

    The accuracy on the fold's `valid` is checked every few epochs, and the best weights are kept.
    Training ends after more than `tenacity` checks without a new best accuracy. These checks need
    not follow each other (SentEval's rule).
    """

    optimizer: Literal["Adam", "RMSprop"]
    """A class of `torch.optim` with torch's settings; SentEval adds the penalty's gradient."""
    batch: int
    epochs_per_look: int
    tenacity: int

    def __str__(self) -> str:
        return (
            f"{self.optimizer} in batches of {self.batch}, a look every {self.epochs_per_look} "
            f"epochs, tenacity {self.tenacity}"
        )

    def __call__(self, x: Tensor, y: Tensor, folds: Sequence[Fold], l2: FloatArray) -> Tensor:
        """Train a classifier for every fold and penalty strength.

        Args:
            x: features `(row, dim)` float32.
            y: labels `(row,)` int64 from 0.
            folds: rows of each fold.
            l2: penalties `(fold, strength)`; the strengths of a fold share their batches.

        Returns:
            Weights `(fold, strength, class, dim + 1)`, the bias last.
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
        """Train folds of equal size, which share all shuffles and steps; return the best weights.

        A fold leaves the computation after all its strengths have stopped.
        """
        random = np.random.RandomState(SEED)  # the generator behind SentEval's np.random
        train, valid = _rows(folds, random)
        one_hot = torch.nn.functional.one_hot(y).float()
        best = weights.clone()
        highest = torch.full(best.shape[:2], -1.0, dtype=torch.float64)
        misses = torch.zeros(best.shape[:2], dtype=torch.int64)
        left = torch.arange(len(folds))
        # Adam and RMSprop update each weight by its own history alone, so that stacked classifiers
        # take the same steps as single ones.
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
                # Adam has a single count of steps for all weights.
                optimizer.state[weights] = {
                    name: value[stay] if value.ndim else value for name, value in history.items()
                }
        return best


def _initial_weights(dim: int, classes: int) -> Tensor:
    """Return the initial weights of a linear layer of torch, `(class, dim + 1)`."""
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
