"""A batch of padded token ids, the input of an encoder, and changes of its embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from isospace.operators.inverse_sqrt import in_float64

_LONG_ATTENTION = 64
"""Number of tokens from which splitting a batch by length saves time."""


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


@dataclass(frozen=True)
class Batch:
    """Padded token ids of a batch of examples, each with one or several sources.

    A source is a text, or an edited version of it.

    Attributes:
        input_ids: (sources * batch, length) int64, the first source of all examples first.
        attention_mask: (sources * batch, length) int64, 1 for tokens.
        sources: number of sources per example.
        changed: index of a source -> changes of its embeddings; only sources with changes.
        labels: (batch,) int64 class of each example; `None` without classes.
        prompts: index of a source -> number of prompt tokens; only sources with a prompt. Some
            poolings leave the prompt out.
        teacher: (batch, n) teacher's scores of the texts in each example's list; `None` without a
            teacher.
    """

    input_ids: Tensor
    attention_mask: Tensor
    sources: int = 1
    changed: Mapping[int, EmbeddingChanges] = field(default_factory=dict)
    labels: Tensor | None = None
    prompts: Mapping[int, int] = field(default_factory=dict)
    teacher: Tensor | None = None

    def __len__(self) -> int:
        return len(self.input_ids) // self.sources

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        changed = {source: changes.to(device) for source, changes in self.changed.items()}
        moved: dict[str, Any] = {
            name: x.to(device) for name, x in vars(self).items() if isinstance(x, Tensor)
        }
        return replace(self, changed=changed, **moved)

    def stack(self, sources: Sequence[int]) -> Batch:
        """Return a batch of one source with the rows of `sources[0]`, then `sources[1]` ...

        Either all or none of the sources have embedding changes. The prompt length is that of the
        first source.
        """
        if self.sources == len(sources) == 1:
            return self

        def stacked(rows: Tensor) -> Tensor:
            of_source = rows.chunk(self.sources)
            return torch.cat([of_source[place] for place in sources])

        changed = {}
        if parts := [self.changed[place] for place in sources if place in self.changed]:
            positions = torch.cat([part.positions for part in parts])
            changed[0] = EmbeddingChanges(positions, torch.cat([part.kept for part in parts]))
        return Batch(
            stacked(self.input_ids),
            stacked(self.attention_mask),
            changed=changed,
            prompts={0: self.prompts[sources[0]]} if sources[0] in self.prompts else {},
        )

    def rows(self, rows: Tensor) -> Batch:
        """Return a batch of some examples, without their embedding changes."""

        def chosen(of_all: Tensor) -> Tensor:
            by_source = of_all.reshape(self.sources, len(self), *of_all.shape[1:])
            return by_source[:, rows].flatten(0, 1)

        return replace(
            self,
            input_ids=chosen(self.input_ids),
            attention_mask=chosen(self.attention_mask),
            changed={},
            labels=None if self.labels is None else self.labels[rows],
            teacher=None if self.teacher is None else self.teacher[rows],
        )

    def parts(self, tokens: int) -> list[Tensor]:
        """Split the examples into parts of at most `tokens` tokens; return the rows of each part.

        A part holds examples of similar length. A longer example is a part of its own.
        """
        lengths = self.attention_mask.view(self.sources, len(self), -1).sum((0, 2))
        order = lengths.argsort(stable=True)
        parts: list[list[int]] = [[]]
        room = tokens
        for row, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
            if parts[-1] and length > room:
                parts.append([])
                room = tokens
            parts[-1].append(row)
            room -= length
        return [torch.tensor(part, device=lengths.device) for part in parts]

    def by_length(self) -> list[Tensor]:
        """Split the texts by length to save padding; return the rows of each part.

        The cost of attention grows with the square of the length. A part is split again while that
        saves at least a third of its cost.
        """
        lengths = self.attention_mask.sum(1)
        order = lengths.argsort(stable=True)
        parts, rest = [], in_float64(lengths[order])
        while len(rest) >= 2 and rest[-1] >= _LONG_ATTENTION:
            count = torch.arange(1, len(rest), device=rest.device)
            cost = count * rest[:-1].square() + (len(rest) - count) * rest[-1].square()
            best = int(cost.argmin())
            if cost[best] > 2 / 3 * len(rest) * rest[-1].square():
                break
            parts.append(order[best + 1 :])
            order, rest = order[: best + 1], rest[: best + 1]
        return [*parts, order]

    def without_idle_padding(self) -> Batch:
        """Return the batch without the padding after the longest text."""
        length = int(self.attention_mask.sum(1).max())
        ids, mask = self.input_ids[:, :length], self.attention_mask[:, :length]
        changed = {source: changes.cut(length) for source, changes in self.changed.items()}
        return Batch(ids, mask, self.sources, changed, prompts=self.prompts)


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
