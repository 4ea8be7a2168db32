"""Auxiliary networks and memories: momentum copies, queues, draws.

They are modules, so that they are optimised (where they require a gradient), saved with the
checkpoint, and averaged over processes. None is shipped, except what `Objective.shipped` returns.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from isospace.views import Views
from isospace.views.networks import TextEncoder as TextEncoder  # objectives load it from here


class Auxiliary(nn.Module):
    """Base of auxiliary networks and memories.

    A part that never changes has an attribute `from_setting`, the setting that names its source,
    from which a resumed run loads it again. A checkpoint holds its hash alone.
    """

    def after_update(self, encoder: nn.Module, views: Views) -> None:
        """Do what is due once the optimiser has stepped; by default nothing.

        The views are of the update's last batch, without gradient. The two directions of a pair are
        rows in turn. A head that is an `Auxiliary` is called too.
        """


ByName: TypeAlias = dict[str, nn.Module]
"""Name -> auxiliary network or memory."""


class Seeded(nn.Module):
    """Base of modules that draw random numbers; the generator's state is in `state_dict`."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def get_extra_state(self) -> Tensor:
        return self.generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        self.generator.set_state(state.cpu())


class Draws(Seeded, Auxiliary):
    """Random numbers for the terms, from a saved CPU generator, the same in every process."""

    def __init__(self, seed: int) -> None:
        super().__init__(torch.Generator().manual_seed(seed))

    @contextmanager
    def own_draws(self, device: torch.device) -> Iterator[None]:
        """Seed the global generator, dropout's too, from this one within the context."""
        seed = int(torch.randint(2**62, (), generator=self.generator))
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            if device.type == "cpu":  # a GPU's generator would be seeded too, and not put back
                torch.default_generator.manual_seed(seed)
            else:
                torch.manual_seed(seed)
            yield


class Network(Auxiliary):
    """A copy of the encoder, which can encode views (`View.by`), or of a part of a head.

    The optimiser trains a `trained` copy; others have no gradient. After every update the copy
    becomes m times itself plus (1 - m) times the encoder. m is the `momentum`, or a function of the
    number of the update to come, from 2; `None` leaves the copy.
    """

    def __init__(
        self,
        encoder: Any,
        *,
        trained: bool = False,
        momentum: float | Callable[[int], float] | None = None,
    ) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        if not trained:
            self.encoder.requires_grad_(False)
            if momentum is None:
                self.encoder.from_setting = "model"
        self.trained, self.momentum = trained, momentum
        self._updates: Tensor
        self.register_buffer("_updates", torch.ones((), dtype=torch.int64))

    def after_update(self, encoder: nn.Module, views: Views) -> None:
        self._updates += 1
        if self.momentum is not None:
            m = self.momentum(int(self._updates)) if callable(self.momentum) else self.momentum
            follow(self.encoder, encoder, m)


@torch.no_grad()
def follow(copied: nn.Module, original: nn.Module, momentum: float) -> None:
    """Set the copy's parameters to m times themselves plus (1 - m) times the original's."""
    for ours, theirs in zip(copied.parameters(), original.parameters(), strict=True):
        ours.lerp_(theirs, 1 - momentum)


class Queue(Auxiliary):
    """The last `size` vectors of one projected view, oldest first (MoCo; He et al. 2020)."""

    def __init__(self, size: int, dim: int, view: int, start: Tensor | None = None) -> None:
        super().__init__()
        self.dim, self.view = dim, view
        self._rows: Tensor
        self._filled: Tensor
        self.register_buffer("_rows", torch.zeros(size, dim))
        self.register_buffer("_filled", torch.zeros((), dtype=torch.int64))
        if start is not None:
            self.push(start)

    @property
    def rows(self) -> Tensor:
        """The vectors (n, dim), n at most the size."""
        return self._rows[len(self._rows) - int(self._filled) :]

    @torch.no_grad()
    def push(self, vectors: Tensor) -> None:
        """Append vectors (batch, dim) and drop the oldest."""
        self._rows.copy_(torch.cat([self._rows, vectors.to(self._rows)])[len(vectors) :])
        self._filled.copy_(torch.clamp(self._filled + len(vectors), max=len(self._rows)))

    def after_update(self, encoder: nn.Module, views: Views) -> None:
        self.push(views.projected[self.view])
