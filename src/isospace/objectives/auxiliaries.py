"""Auxiliary networks and memories: what trains, or remembers, beside the encoder.

They are modules, so that their parameters are optimised (where they require a gradient), their
parameters and buffers saved with the checkpoint, and their gradients averaged over processes. None
is shipped, except what `Objective.shipped` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, TypeVar

import torch

from isospace.views import Views, Vocabulary


class Encoder(Protocol):
    """The encoder as auxiliary networks use it, `isospace.encoders.encoder.Encoder`."""

    @property
    def dim(self) -> int: ...  # noqa: D102
    @property
    def device(self) -> torch.device: ...  # noqa: D102
    @property
    def max_length(self) -> int | None: ...  # noqa: D102
    @property
    def vocabulary(self) -> Vocabulary: ...  # noqa: D102
    @property
    def word_embeddings(self) -> torch.nn.Embedding: ...  # noqa: D102
    @property
    def attentions(self) -> Sequence[Any]: ...  # noqa: D102
    def language_model(self, name: str | None = None) -> Any: ...  # noqa: D102
    def requires_grad_(self, requires_grad: bool = True) -> Any: ...  # noqa: D102
    def token_states(  # noqa: D102
        self,
        ids: torch.Tensor,
        mask: torch.Tensor,
        dropout: float | None = None,
        *,
        embedded: Callable[[torch.Tensor], torch.Tensor] | None = None,
        attended: Sequence[Callable[[torch.Tensor], torch.Tensor]] = (),
    ) -> torch.Tensor: ...


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


class RandomHead(torch.nn.Module):
    """Base of modules that draw random numbers; the generator's state is in `state_dict`."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def get_extra_state(self) -> torch.Tensor:
        """Return the generator's state, a uint8 tensor."""
        return self.generator.get_state()

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Continue from a saved state."""
        self.generator.set_state(state.cpu())


class Draws(RandomHead, Auxiliary):
    """Random numbers for the terms, from a saved generator.

    Every process computes the terms of the whole batch, so all must draw the same numbers.

    Args:
        seed: of the generator, a CPU one on every device.
    """

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


class Scale(Auxiliary):
    """A trained factor of cosines.

    Args:
        start: the factor before training, positive.

    Attributes:
        log: the factor's logarithm, a scalar parameter.
    """

    def __init__(self, start: float) -> None:
        super().__init__()
        self.log = torch.nn.Parameter(torch.tensor(start).log())


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
        words = name.replace("_", " ") + " network" * hasattr(part, "trained")
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
