"""What trains, or remembers, beside the encoder: other networks, memories. Never shipped.

A companion is a module, so that its parameters are optimised (where they ask for a gradient), its
parameters and buffers saved with the checkpoint, and its gradients averaged over processes.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeVar

import torch

from isospace.objectives.base import TokenStates, Views
from isospace.objectives.edits import NO_TARGET


class Companion(torch.nn.Module):
    """Base of all companions."""

    def after_update(self, encoder: torch.nn.Module, views: Views) -> None:
        """What is to be done once the optimiser has stepped; by itself nothing.

        Args:
            encoder: as it now is.
            views: of the batch of this update, the last one if several were accumulated, without
                gradient.
        """


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


class Convolutions(Companion):
    """Convolutions over the tokens, side by side (IS-BERT): a token in its surroundings.

    Args:
        dim: of a token state.
        channels: of each convolution.
        kernels: tokens that each sees, odd.
        relu: behind each convolution.
        generator: of the weights.
    """

    def __init__(
        self,
        dim: int,
        channels: int,
        kernels: Sequence[int],
        *,
        relu: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.relu = relu
        self.layers = torch.nn.ModuleList()
        for kernel in kernels:
            empty = torch.nn.Conv1d(dim, channels, kernel, padding=kernel // 2, device="meta")
            layer = empty.to_empty(device="cpu")
            bound = (dim * kernel) ** -0.5  # PyTorch's own, from our generator
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter.uniform_(-bound, bound, generator=generator)
            self.layers.append(layer)

    def forward(self, tokens: TokenStates) -> torch.Tensor:
        """(batch, length, channels of all), zero at the padding."""
        across = tokens.states.transpose(1, 2)
        features = torch.cat([layer(across) for layer in self.layers], dim=1).transpose(1, 2)
        features = features.relu() if self.relu else features
        return features * tokens.mask.unsqueeze(-1)


class MaskedHead(Companion):
    """Guesses tokens from their states, by the encoder's own table of words (BERT's head).

    An encoder comes without its pre-trained head, so the layer before the table begins as the
    identity.

    Args:
        words: the table, which the encoder keeps and trains.
        dim: of a token state.

    Raises:
        ValueError: the table is of another width.
    """

    def __init__(self, words: torch.nn.Embedding, dim: int) -> None:
        super().__init__()
        count, width = words.weight.shape
        if width != dim:
            raise ValueError(f"words have {width} dimensions and states {dim}")
        self._words = (words,)  # in a tuple: it is the encoder's module, not another one here
        self.dense = torch.nn.Linear(dim, dim, device="meta").to_empty(device="cpu")
        self.norm = torch.nn.LayerNorm(dim)
        self.bias = torch.nn.Parameter(torch.zeros(count))
        with torch.no_grad():
            torch.nn.init.eye_(self.dense.weight)
            self.dense.bias.zero_()

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """(n, dim) -> (n, words) logits."""
        hidden = self.norm(torch.nn.functional.gelu(self.dense(states)))
        return torch.nn.functional.linear(hidden, self._words[0].weight.to(hidden), self.bias)

    def loss(self, views: Sequence[TokenStates]) -> torch.Tensor:
        """Cross-entropy, mean over the tokens to guess in all views; 0 where there is none."""
        states, targets = [], []
        for tokens in views:
            if tokens.targets is None:
                raise ValueError("tokens: nothing is to be guessed")
            wanted = tokens.targets != NO_TARGET
            states.append(tokens.states[wanted])
            targets.append(tokens.targets[wanted])
        logits, wanted = self(torch.cat(states)), torch.cat(targets)
        total = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
        return total / max(1, len(wanted))


C = TypeVar("C", bound=Companion)


def companion(views: Views, name: str, kind: type[C]) -> C:
    """The companion of this name.

    Raises:
        ValueError: there is no such companion beside the views.
    """
    found = views.companions.get(name)
    if not isinstance(found, kind):
        words = kind.__name__.lower()
        raise ValueError(f"companions: expected a {words} {name!r}; got {sorted(views.companions)}")
    return found


def remembered(views: Views, name: str) -> torch.Tensor:
    """The vectors (n, dim) in the queue of this name, oldest first.

    Raises:
        ValueError: there is no such queue beside the views.
    """
    return companion(views, name, Queue).rows
