"""Changed embeddings: other positions of the tokens, and parts that are cut off, for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Changes:
    """What is changed in the embeddings of padded sentences.

    Attributes:
        positions: (batch, length) of the tokens, from 0.
        kept: (batch, length, dim), false where the embedding layer's output is set to 0.
    """

    positions: Tensor
    kept: Tensor

    def to(self, device: torch.device) -> Changes:
        """The same on another device."""
        return Changes(self.positions.to(device), self.kept.to(device))

    def cut(self, length: int) -> Changes:
        """Of sentences that are padded to no more than this length."""
        return Changes(self.positions[:, :length], self.kept[:, :length])


def concatenated(parts: Sequence[Changes]) -> Changes:
    """The changes of several batches, one after the other."""
    return Changes(torch.cat([c.positions for c in parts]), torch.cat([c.kept for c in parts]))


def refusal(model: nn.Module) -> str | None:
    """Why a Hugging Face model's embeddings cannot be changed; `None` where they can."""
    positions = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    if isinstance(positions, nn.Embedding):
        return None
    return f"{type(model).__name__} has no layer of embeddings with learned positions"


@contextmanager
def changed(model: Any, changes: Changes) -> Iterator[None]:
    """Run a Hugging Face model that is not refused with changed embeddings."""
    part = model.embeddings
    table = part.position_embeddings
    # Where padding has a position of its own (RoBERTa), the others begin behind it.
    first = 0 if table.padding_idx is None else table.padding_idx + 1
    hooks = (
        table.register_forward_pre_hook(lambda *_: (first + changes.positions,)),
        part.register_forward_hook(lambda _module, _args, states: states * changes.kept),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
