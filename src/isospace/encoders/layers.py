"""The last layers of a transformer, run on their own with transformers' modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn


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
        count: number of last layers.

    Attributes:
        below: indices of the lower layers.
        last: indices of the last layers.
        described: description for a log line.
    """

    def __init__(self, layers: list[nn.Module], count: int) -> None:
        lower = len(layers) - count
        self.below, self.last = slice(lower), slice(lower, None)
        self.described = f"trains {count} of {len(layers)} layers"
        self._lower, self._first = layers[self.below], layers[self.last][0]
        self._beside: int | None = None
        """Number of outputs of a layer after its states; `None` if it returns no tuple."""

    def states_below(self, run: Callable[[], Any]) -> Tensor:
        """Return the input of the last layers, and stop the forward pass there.

        Args:
            run: function that runs the model.

        Raises:
            ValueError: the forward pass does not reach the last layers.
        """

        def note(_layer: nn.Module, _inputs: Any, output: Any) -> None:
            self._beside = len(output) - 1 if isinstance(output, tuple) else None

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
            return own if self._beside is None else (own, *[None] * self._beside)

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
