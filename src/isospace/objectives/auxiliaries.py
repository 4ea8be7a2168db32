"""Auxiliary networks and memories: what trains, or remembers, beside the encoder.

They are modules, so that their parameters are optimised (where they require a gradient), their
parameters and buffers saved with the checkpoint, and their gradients averaged over processes. None
is shipped, except what `Objective.shipped` returns.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, TypeVar

import torch

from isospace.operators.convolutions import Convolutions
from isospace.operators.word_loss import word_loss
from isospace.views import NO_TARGET, TokenIds, TokenStates, Views


class Auxiliary(torch.nn.Module):
    """Base of auxiliary networks and memories."""

    general_path: ClassVar[str] = ""
    """Why passes that the terms make take the general path, in float32; empty: there are none."""

    @property
    def frozen(self) -> Mapping[str, torch.nn.Module]:
        """Parts that never change, by the setting that names the source of each; by default none.

        A checkpoint holds their hash alone; a resumed run loads them from their source again.
        """
        return {}

    def after_update(self, encoder: torch.nn.Module, views: Views) -> None:
        """Do what is due once the optimiser has stepped; by default nothing.

        A head that is an `Auxiliary` too is called as well.

        Args:
            encoder: as it now is.
            views: of the batch of this update, the last one if several were accumulated, without
                gradient. Over pairs of texts the two directions of a pair are rows in turn.
        """


class Network(Auxiliary):
    """A copy of the encoder, by which a view can be made (`View.by`).

    Args:
        encoder: copied as it is.
        trained: what trains of the encoder is trained here too, by the optimiser, beside it; else
            its vectors have no gradient.
        momentum: m, after every update the copy is m times itself plus (1 - m) times the encoder;
            `None` leaves it as it is. May depend on the number of the update to come, from 2.
    """

    def __init__(
        self,
        encoder: torch.nn.Module,
        *,
        trained: bool = False,
        momentum: float | Callable[[int], float] | None = None,
    ) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        if not trained:
            self.encoder.requires_grad_(False)
        self.trained, self.momentum = trained, momentum
        self._updates: torch.Tensor
        self.register_buffer("_updates", torch.ones((), dtype=torch.int64))

    @property
    def frozen(self) -> Mapping[str, torch.nn.Module]:
        """The copy, where neither the optimiser nor momentum moves it."""
        moves = self.trained or self.momentum is not None
        return {} if moves else {"model": self.encoder}

    def after_update(self, encoder: torch.nn.Module, views: Views) -> None:
        """Follow the encoder."""
        self._updates += 1
        if self.momentum is not None:
            m = self.momentum(int(self._updates)) if callable(self.momentum) else self.momentum
            follow(self.encoder, encoder, m)


@torch.no_grad()
def follow(copied: torch.nn.Module, original: torch.nn.Module, momentum: float) -> None:
    """The copy's parameters become m times themselves plus (1 - m) times the original's."""
    for ours, theirs in zip(copied.parameters(), original.parameters(), strict=True):
        ours.lerp_(theirs, 1 - momentum)


class Queue(Auxiliary):
    """The last vectors of one view, oldest first (MoCo, He et al. 2020).

    Args:
        size: vectors that are kept.
        dim: of a vector.
        view: which of the projected views is remembered.
        start: (n, dim) remembered before the first update; `None`: nothing.
    """

    def __init__(self, size: int, dim: int, view: int, start: torch.Tensor | None = None) -> None:
        super().__init__()
        self.dim, self.view = dim, view
        self._rows: torch.Tensor
        self._filled: torch.Tensor
        self.register_buffer("_rows", torch.zeros(size, dim))
        self.register_buffer("_filled", torch.zeros((), dtype=torch.int64))
        if start is not None:
            self.push(start)

    @property
    def rows(self) -> torch.Tensor:
        """(n, dim), n at most the size."""
        return self._rows[len(self._rows) - int(self._filled) :]

    @torch.no_grad()
    def push(self, vectors: torch.Tensor) -> None:
        """Remember these (batch, dim), and forget the oldest."""
        self._rows.copy_(torch.cat([self._rows, vectors.to(self._rows)])[len(vectors) :])
        self._filled.copy_(torch.clamp(self._filled + len(vectors), max=len(self._rows)))

    def after_update(self, encoder: torch.nn.Module, views: Views) -> None:
        """Remember the view."""
        self.push(views.projected[self.view])


class LateQueue(Queue):
    """A queue that is full of random vectors, and begins to forget late (MoCoSE, as released).

    A counter of vectors begins at `count` and grows with what is remembered. While it is not beyond
    `size` nothing is forgotten; while it and `count` together are less than `size`, only so many
    of the newest are given out.

    Args:
        count: where the counter begins.
        start: (size, dim) what it is full of, oldest first.
        view: which of the projected views is remembered.
    """

    def __init__(self, count: int, start: torch.Tensor, view: int) -> None:
        super().__init__(2 * len(start), start.shape[1], view)
        super().push(start)
        self.size, self.count = len(start), count
        self._counter: torch.Tensor
        self.register_buffer("_counter", torch.tensor(count))

    @property
    def rows(self) -> torch.Tensor:
        """(n, dim), n up to twice the size."""
        given = int(self._counter) + self.count
        return super().rows[-given:] if given < self.size else super().rows

    @torch.no_grad()
    def push(self, vectors: torch.Tensor) -> None:
        """Remember these (batch, dim), the first as the newest, and perhaps forget old ones."""
        super().push(vectors.flip(0))
        self._counter += len(vectors)
        if int(self._counter) > self.size:
            self._filled.clamp_(max=self.size)


class RandomHead(torch.nn.Module):
    """Base of what draws random numbers; the generator's state is part of `state_dict`."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def get_extra_state(self) -> torch.Tensor:
        """The generator's state, a uint8 tensor."""
        return self.generator.get_state()

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Go on drawing where the saved generator stood."""
        self.generator.set_state(state.cpu())


class LastGradient(Auxiliary):
    """Moves the embeddings of words along the sign of the gradient of the batch before.

    That is of the word at the same place of the sentence at the same place, so of other words: it
    was at hand without a further pass (MoCoSE, as released).

    Args:
        size: of the step.
    """

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size
        self._signs = torch.zeros(0, 0, 0, dtype=torch.int8)

    def get_extra_state(self) -> torch.Tensor:
        """(batch, length, dim) int8, over all processes."""
        return self._signs

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Go on with saved ones."""
        self._signs = state

    def added(self, like: torch.Tensor, first: int) -> torch.Tensor:
        """What is added to embeddings, a leaf that will have their gradient.

        Args:
            like: (batch, length, dim), of which shape, type and device are taken.
            first: row of the global batch at which this process's begin.
        """
        step = torch.zeros_like(like)
        signs = self._signs[first : first + len(like), : like.shape[1]].to(step)
        if signs.numel():
            step[: len(signs), : signs.shape[1]] = self.size * signs
        return step.requires_grad_()

    def remember(self, gradient: torch.Tensor) -> None:
        """Of all processes, (batch, length, dim)."""
        self._signs = gradient.sign().to(torch.int8)


class Draws(RandomHead, Auxiliary):
    """Random numbers of the terms; where they stand is saved.

    Every process computes the terms of the whole batch, so all of them have to draw the same.

    Args:
        seed: of the generator, which is a CPU one whatever the device.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(torch.Generator().manual_seed(seed))

    @contextmanager
    def own_draws(self, device: torch.device) -> Iterator[None]:
        """A context in which the global generator, dropout's too, draws what this one decides."""
        seed = int(torch.randint(2**62, (), generator=self.generator))
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            if device.type == "cpu":  # a GPU's generator would be seeded too, and not put back
                torch.default_generator.manual_seed(seed)
            else:
                torch.manual_seed(seed)
            yield


class Scale(Auxiliary):
    """A trained factor of cosines.

    Args:
        start: its value before training, positive.

    Attributes:
        log: of the factor, a scalar parameter.
    """

    def __init__(self, start: float) -> None:
        super().__init__()
        self.log = torch.nn.Parameter(torch.tensor(start).log())


class TokenConvolutions(Convolutions, Auxiliary):
    """Convolutions over the tokens that train beside the encoder, and are shipped (IS-BERT)."""


class MaskedHead(Auxiliary):
    """Guesses tokens from their states, by the encoder's own table of words (BERT's head).

    An encoder comes without its pre-trained head, so the layer before the table begins as the
    identity.

    Args:
        words: the table, which the encoder keeps and trains.
        dim: of a token state.
        eps: of the norm.

    Raises:
        ValueError: the table is of another width.
    """

    def __init__(self, words: torch.nn.Embedding, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        count, width = words.weight.shape
        if width != dim:
            raise ValueError(f"words have {width} dimensions and states {dim}")
        self._words = (words,)  # in a tuple: it is the encoder's module, not another one here
        self.dense = torch.nn.Linear(dim, dim, device="meta").to_empty(device="cpu")
        self.norm = torch.nn.LayerNorm(dim, eps=eps)
        self.bias = torch.nn.Parameter(torch.zeros(count))
        with torch.no_grad():
            torch.nn.init.eye_(self.dense.weight)
            self.dense.bias.zero_()

    def forward(self, states: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Negative log-likelihood of tokens, summed.

        Args:
            states: (n, dim) where they are guessed.
            ids: (n,) the tokens.
        """
        hidden = self.norm(torch.nn.functional.gelu(self.dense(states)))
        return word_loss(hidden, self._words[0].weight.to(hidden), self.bias, ids)

    def loss(self, views: Sequence[TokenStates], targets: Sequence[TokenIds]) -> torch.Tensor:
        """Cross-entropy, mean over the tokens to guess in all views; 0 where there is none.

        Args:
            views: the states of masked sentences.
            targets: of each view, `NO_TARGET` where nothing is to be guessed.
        """
        wanted = [(target.ids != NO_TARGET) & target.mask.bool() for target in targets]
        states = [view.states[here] for view, here in zip(views, wanted, strict=True)]
        ids = torch.cat([target.ids[here] for target, here in zip(targets, wanted, strict=True)])
        total: torch.Tensor = self(torch.cat(states), ids)
        return total / max(1, len(ids))


def costs(auxiliaries: Mapping[str, Auxiliary]) -> str:
    """Describe what auxiliary networks cost; those below 0.1 MB are left out.

    Memory counts parameters and buffers, and for trained parameters their gradient and the
    optimiser's two moments.
    """
    said = []
    for name, part in auxiliaries.items():
        parameters = list(part.parameters())
        trained = [p for p in parameters if p.requires_grad]
        memory = sum(x.nbytes for x in (*parameters, *part.buffers(), *3 * trained)) / 1e6
        if memory < 0.1:
            continue
        words = name.replace("_", " ") + " network" * isinstance(part, Network)
        if parameters:
            words += f", {sum(p.numel() for p in parameters) / 1e6:.1f} M parameters"
        words += f", {memory:.{0 if memory >= 10 else 1}f} MB"
        if part.general_path:
            words += f" (general path, float32: {part.general_path})"
        said.append(words)
    return "; ".join(said)


C = TypeVar("C", bound=torch.nn.Module)


def find_auxiliary(auxiliaries: Mapping[str, torch.nn.Module], name: str, kind: type[C]) -> C:
    """Return the auxiliary network or memory of this name.

    Raises:
        ValueError: there is none of this name and kind.
    """
    found = auxiliaries.get(name)
    if not isinstance(found, kind):
        words = kind.__name__.lower()
        raise ValueError(f"auxiliaries: expected a {words} {name!r}; got {sorted(auxiliaries)}")
    return found


def remembered(views: Views) -> torch.Tensor:
    """The vectors (n, dim) in the queue, oldest first.

    Raises:
        ValueError: there is no such queue beside the views.
    """
    return find_auxiliary(views.auxiliaries, "queue", Queue).rows
