"""Dropout as a property of a view: set every rate of an encoder for a while, then put it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from isospace.errors import UserError

# Where transformers keeps a rate as a plain number that is read while `training` is set: attention
# (sdpa, eager, flash) in most encoders, activations and residuals in some.
_RATE_ATTRIBUTES = (
    "dropout", "attention_dropout", "activation_dropout", "hidden_dropout", "dropout_prob",
    "dropout_p", "attn_dropout", "attn_drop", "embedding_dropout", "resid_pdrop",
    "residual_dropout", "drop",
)  # fmt: skip


class Noise:
    """Every dropout rate of a module, attention included.

    Args:
        module: the encoder; its rates at this moment are "its own".
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
        """The distinct rates in force, ascending."""
        return tuple(sorted({float(getattr(part, name)) for part, name in self._slots}))

    def set(self, rate: float) -> None:
        """Make `rate` the encoder's own rate, everywhere and for good.

        Raises:
            ValueError: a rate outside [0, 1).
        """
        _check(rate)
        for part, name in self._slots:
            setattr(part, name, rate)

    @contextmanager
    def at(self, rate: float | None) -> Iterator[None]:
        """Run the encoder under one rate: `None` for its own rates, 0.0 for a clean pass.

        Rates and training flags are put back however the block ends.

        Raises:
            ValueError: a rate outside [0, 1).
            UserError: the backward pass would run layers again, after their own rates are back.
        """
        if rate is not None:
            _check(rate)
        # A clean view is safe: only layers in training are run again.
        parts = self._module.modules()
        checkpoints = any(getattr(part, "gradient_checkpointing", False) for part in parts)
        if rate and torch.is_grad_enabled() and checkpoints:
            raise UserError(
                f"gradient checkpointing runs the layers again in the backward pass, where this "
                f"view's dropout of {rate:g} is no longer set, so its gradient would be wrong. "
                "Train without gradient checkpointing, or with an objective whose views keep the "
                "model's own dropout"
            )
        flags = [(part, part.training) for part in self._module.modules()]
        rates = [getattr(part, name) for part, name in self._slots]
        try:
            # Only evaluation mode of the whole makes a pass clean: attention reads its own flag.
            self._module.train(rate != 0.0)
            if rate:
                for part, name in self._slots:
                    setattr(part, name, rate)
            yield
        finally:
            for (part, name), old in zip(self._slots, rates, strict=True):
                setattr(part, name, old)
            for part, training in flags:
                part.training = training


def _is_rate(value: object) -> bool:
    """Also 0 and 1 written as integers, which configurations do."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check(rate: float) -> None:
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"a dropout rate lies in [0, 1); got {rate}")
