"""Changes of embeddings inside the forward pass of transformers' modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    """

    positions: Tensor
    kept: Tensor

    def to(self, device: torch.device) -> EmbeddingChanges:
        """Return the changes on a device."""
        return EmbeddingChanges(self.positions.to(device), self.kept.to(device))

    def cut(self, length: int) -> EmbeddingChanges:
        """Return the changes of the first `length` tokens."""
        return EmbeddingChanges(self.positions[:, :length], self.kept[:, :length])


def concatenated(parts: Sequence[EmbeddingChanges]) -> EmbeddingChanges:
    """Return the concatenated changes of several batches."""
    positions, kept = (torch.cat([getattr(c, x) for c in parts]) for x in ("positions", "kept"))
    return EmbeddingChanges(positions, kept)


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
    with (
        table.register_forward_pre_hook(lambda *_: (first + changes.positions,)),
        part.register_forward_hook(lambda _module, _args, states: states * changes.kept),
    ):
        yield
