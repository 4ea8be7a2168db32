"""Changes inside the forward pass of transformers' modules: of embeddings, and of lower layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class EmbeddingChanges:
    """Changes of the embeddings of padded sentences.

    Attributes:
        positions: (batch, length) positions of the tokens, from 0.
        kept: (batch, length, dim), false where the embedding layer's output is set to 0.
        added: (batch, length, dim), added to the word embeddings; `None`: nothing.
    """

    positions: Tensor
    kept: Tensor
    added: Tensor | None = None

    def to(self, device: torch.device) -> EmbeddingChanges:
        """Return the changes on a device."""
        added = None if self.added is None else self.added.to(device)
        return EmbeddingChanges(self.positions.to(device), self.kept.to(device), added)

    def cut(self, length: int) -> EmbeddingChanges:
        """Return the changes of the first `length` tokens."""
        added = None if self.added is None else self.added[:, :length]
        return EmbeddingChanges(self.positions[:, :length], self.kept[:, :length], added)


def concatenated(parts: Sequence[EmbeddingChanges]) -> EmbeddingChanges:
    """Return the concatenated changes of several batches."""
    positions, kept = (torch.cat([getattr(c, x) for c in parts]) for x in ("positions", "kept"))
    if all(c.added is None for c in parts):
        return EmbeddingChanges(positions, kept)
    nothing = (torch.zeros_like(c.kept, dtype=torch.float32) for c in parts)
    added = [zero if c.added is None else c.added for c, zero in zip(parts, nothing, strict=True)]
    return EmbeddingChanges(positions, kept, torch.cat(added))


def embedding_refusal(model: nn.Module) -> str | None:
    """Return the reason why a model's embeddings cannot be changed; `None` if they can."""
    positions = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    if not isinstance(positions, nn.Embedding):
        return f"{type(model).__name__} has no layer of embeddings with learned positions"
    words: Any = model.get_input_embeddings()  # type: ignore[operator]
    if words.embedding_dim != positions.embedding_dim:
        return f"{type(model).__name__} has embeddings of words of another width than of positions"
    return None


def embedding_width(model: Any) -> int:
    """Return the width of a model's embeddings; the states may be wider."""
    return int(model.embeddings.position_embeddings.embedding_dim)


@contextmanager
def changed_embeddings(model: Any, changes: EmbeddingChanges) -> Iterator[None]:
    """Change the embeddings of a Hugging Face model without an `embedding_refusal`."""
    part = model.embeddings
    table = part.position_embeddings
    # If padding has its own position (RoBERTa), token positions begin after it.
    first = 0 if table.padding_idx is None else table.padding_idx + 1
    added = 0 if changes.added is None else changes.added
    with (
        model.get_input_embeddings().register_forward_hook(lambda _m, _args, words: words + added),
        table.register_forward_pre_hook(lambda *_: (first + changes.positions,)),
        part.register_forward_hook(lambda _module, _args, states: states * changes.kept),
    ):
        yield


def layers_of(model: Any) -> list[nn.Module]:
    """Return the layers of a Hugging Face model; empty if they are not in one `ModuleList`."""
    count = getattr(model.config, "num_hidden_layers", 0)
    lists = (part for part in model.modules() if isinstance(part, nn.ModuleList))
    return next((list(part) for part in lists if len(part) == count), [])


def runs_layers_again(model: nn.Module) -> bool:
    """Return true if the backward pass runs layers again (gradient checkpointing)."""
    return any(getattr(part, "gradient_checkpointing", False) for part in model.modules())


class LastLayers:
    """The last layers of a Hugging Face model, run separately from the lower layers.

    Args:
        layers: all layers of the model, in order. Each maps states (batch, length, dim) to states,
            or to a tuple that begins with states.
        count: number of last layers. The slices `below` and `last` have the indices of both parts.
    """

    def __init__(self, layers: list[nn.Module], count: int) -> None:
        lower = len(layers) - count
        self.below, self.last = slice(lower), slice(lower, None)
        self.described = f"trains {count} of {len(layers)} layers"
        self._lower, self._first = layers[self.below], layers[self.last][0]
        self._other_outputs: int | None = None
        """Number of outputs of a layer after its states; `None` if it returns no tuple."""

    def states_below(self, run: Callable[[], Any]) -> Tensor:
        """Return the input of the last layers, and stop the forward pass there.

        `run` runs the model.

        Raises:
            ValueError: the forward pass does not reach the last layers.
        """

        def note(_layer: nn.Module, _inputs: Any, output: Any) -> None:
            self._other_outputs = len(output) - 1 if isinstance(output, tuple) else None

        def reached(_layer: nn.Module, inputs: tuple[Any, ...]) -> None:
            if inputs:
                raise _ReachedError(inputs[0])

        with ExitStack() as hooks:
            for layer in self._lower:
                hooks.enter_context(layer.register_forward_hook(note))
            hooks.enter_context(self._first.register_forward_pre_hook(reached))
            try:
                run()
            except _ReachedError as end:
                return end.states
        raise ValueError("the last layers are not run")

    @contextmanager
    def given(self, states: Tensor) -> Iterator[None]:
        """Run the last layers on these states inside the block; skip the lower layers."""

        def passed_on(own: Tensor, *_: Any, **__: Any) -> Any:
            return own if self._other_outputs is None else (own, *[None] * self._other_outputs)

        def replaced(_layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return (states, *inputs[1:])

        for layer in self._lower:
            layer.forward = passed_on
        try:
            with self._first.register_forward_pre_hook(replaced):
                yield
        finally:
            for layer in self._lower:
                del layer.forward


class _ReachedError(Exception):
    """The stop of a forward pass, with the states that reach the last layers."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states
