"""What trains, or remembers, beside the encoder: other networks, memories. Never shipped.

A companion is a module, so that its parameters are optimised (where they ask for a gradient), its
parameters and buffers saved with the checkpoint, and its gradients averaged over processes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from isospace.objectives import heads
from isospace.objectives.base import Views


class Companion(torch.nn.Module):
    """Base of all companions."""

    def after_update(self, encoder: torch.nn.Module, views: Views) -> None:
        """What is to be done once the optimiser has stepped; by itself nothing.

        Args:
            encoder: as it now is.
            views: of the batch of this update, the last one if several were accumulated, without
                gradient.
        """


class RandomCompanion(heads.RandomHead, Companion):
    """Base of companions that draw random numbers, dropout's too.

    Every process runs them on the whole batch, so all of them have to draw the same: from a
    generator of their own, which the checkpoint saves.
    """

    @contextmanager
    def own_draws(self, device: torch.device) -> Iterator[None]:
        """A context in which the global generator draws what this one decides."""
        seed = int(torch.randint(2**62, (), generator=self.generator))
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield


class Network(Companion):
    """A copy of the encoder, by which a view can be made (`View.by`).

    Args:
        encoder: copied as it is.
        trained: by the optimiser, beside the encoder; else its vectors have no gradient.
        momentum: m, after every update the copy is m times itself plus (1 - m) times the encoder;
            `None` leaves it as it is.
    """

    def __init__(
        self, encoder: torch.nn.Module, *, trained: bool = False, momentum: float | None = None
    ) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder).requires_grad_(trained)
        self.trained, self.momentum = trained, momentum

    @torch.no_grad()
    def after_update(self, encoder: torch.nn.Module, views: Views) -> None:
        """Follow the encoder."""
        if self.momentum is not None:
            for ours, theirs in zip(self.encoder.parameters(), encoder.parameters(), strict=True):
                ours.lerp_(theirs, 1 - self.momentum)


class Queue(Companion):
    """The last vectors of one view, oldest first (MoCo, He et al. 2020).

    Args:
        size: vectors that are kept.
        dim: of a vector.
        view: which of the projected views is remembered.
    """

    def __init__(self, size: int, dim: int, view: int) -> None:
        super().__init__()
        self.dim, self.view = dim, view
        self._rows: torch.Tensor
        self._filled: torch.Tensor
        self.register_buffer("_rows", torch.zeros(size, dim))
        self.register_buffer("_filled", torch.zeros((), dtype=torch.int64))

    @property
    def rows(self) -> torch.Tensor:
        """(n, dim), n at most the size."""
        return self._rows[len(self._rows) - int(self._filled) :]

    @torch.no_grad()
    def push(self, vectors: torch.Tensor) -> None:
        """Remember these (batch, dim), and forget the oldest."""
        size = len(self._rows)
        self._rows.copy_(torch.cat([self._rows, vectors.to(self._rows)])[-size:])
        self._filled.copy_(torch.clamp(self._filled + len(vectors), max=size))

    def after_update(self, encoder: torch.nn.Module, views: Views) -> None:
        """Remember the view."""
        self.push(views.projected[self.view])


def remembered(views: Views, name: str) -> torch.Tensor:
    """The vectors (n, dim) in the queue of this name, oldest first.

    Raises:
        ValueError: there is no such queue beside the views.
    """
    queue = views.companions.get(name)
    if not isinstance(queue, Queue):
        raise ValueError(f"companions: expected a queue {name!r}; got {sorted(views.companions)}")
    return queue.rows
