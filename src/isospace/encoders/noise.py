"""Dropout as a property of a view: set all rates of an encoder for a while, then restore them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

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
            # Configurations may write the rates 0 and 1 as integers.
            if type(getattr(part, name, None)) in (int, float)
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

        Rates and training flags are restored when the block ends, also after an error.
        """
        if rate is not None:
            _check(rate)
        flags = {part: part.training for part in self._module.modules()}
        rates = [getattr(part, name) for part, name in self._slots]
        try:
            # Put the whole module into evaluation mode: attention modules read their own flag.
            self._module.train(rate != 0.0)
            if rate:
                self.set(rate)
            yield
        finally:
            for part, training in flags.items():
                part.training = training
            for (part, name), own in zip(self._slots, rates, strict=True):
                setattr(part, name, own)


def _check(rate: float) -> None:
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"a dropout rate lies in [0, 1); got {rate}")
