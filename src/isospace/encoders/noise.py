"""Dropout as a property of a view: set all rates of an encoder for a while, then restore them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

# Attributes in which transformers keeps a rate as a plain number, used while `training` is set:
# attention (sdpa, eager, flash) in most encoders, activations and residuals in some.
_RATE_ATTRIBUTES = (
    "dropout", "attention_dropout", "activation_dropout", "hidden_dropout", "dropout_prob",
    "dropout_p", "attn_dropout", "attn_drop", "embedding_dropout", "resid_pdrop",
    "residual_dropout", "drop",
)  # fmt: skip


class Noise:
    """Every dropout rate of a module, attention included.

    The current rates of the module become its own rates.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._slots = [
            (part, name)
            for part in module.modules()
            for name in (
                ("p",) if isinstance(part, nn.modules.dropout._DropoutNd) else _RATE_ATTRIBUTES
            )
            if _is_rate(getattr(part, name, None))
        ]

    @property
    def rates(self) -> tuple[float, ...]:
        """The distinct current rates, ascending."""
        return tuple(sorted({float(getattr(part, name)) for part, name in self._slots}))

    def set(self, rate: float) -> None:
        """Make `rate`, in [0, 1), the encoder's own rate, everywhere and permanently."""
        _check(rate)
        for part, name in self._slots:
            setattr(part, name, rate)

    @contextmanager
    def at(self, rate: float | None) -> Iterator[None]:
        """Set a dropout rate in [0, 1) inside the block; `None` for the encoder's own rates.

        Rates and training flags are restored when the block ends, also after an error. Layers that
        the backward pass runs again (gradient checkpointing) use the block's rates.
        """
        if rate is not None:
            _check(rate)
        flags, rates = self._now()
        again = [part for part in flags if getattr(part, "gradient_checkpointing", False)]
        functions = [getattr(part, "_gradient_checkpointing_func", None) for part in again]
        try:
            # Put the whole module into evaluation mode: attention modules read their own flag.
            self._module.train(rate != 0.0)
            if rate:
                for part, name in self._slots:
                    setattr(part, name, rate)
            noise = self._now()
            for part in again:
                # The backward pass runs these layers again after the block has ended.
                part._gradient_checkpointing_func = partial(
                    checkpoint,
                    use_reentrant=False,
                    context_fn=lambda: (nullcontext(), self._as_at(*noise)),
                )
            yield
        finally:
            self._put(flags, rates)
            for part, function in zip(again, functions, strict=True):
                part._gradient_checkpointing_func = function

    def _now(self) -> tuple[dict[Any, bool], list[float]]:
        """Return the training flag of every part, and the rate of every slot."""
        flags = {part: part.training for part in self._module.modules()}
        return flags, [getattr(part, name) for part, name in self._slots]

    def _put(self, flags: dict[Any, bool], rates: list[float]) -> None:
        for part, training in flags.items():
            part.training = training
        for (part, name), rate in zip(self._slots, rates, strict=True):
            setattr(part, name, rate)

    @contextmanager
    def _as_at(self, flags: dict[Any, bool], rates: list[float]) -> Iterator[None]:
        """Use the flags and rates that `_now` returned inside the block."""
        now = self._now()
        self._put(flags, rates)
        try:
            yield
        finally:
            self._put(*now)


def _is_rate(value: object) -> bool:
    """Return true if a value is a rate; configurations may write 0 and 1 as integers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check(rate: float) -> None:
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"a dropout rate lies in [0, 1); got {rate}")
