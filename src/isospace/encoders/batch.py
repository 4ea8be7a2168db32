"""A batch of padded token ids, as the encoder takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from isospace.encoders import changes
from isospace.encoders.changes import EmbeddingChanges
from isospace.operators.inverse_sqrt import in_float64

_LONG_ATTENTION = 64
"""Tokens from which on attention is worth sparing."""


@dataclass(frozen=True)
class Batch:
    """Padded token ids of a batch of examples, each of one text or several.

    Attributes:
        input_ids: (texts * batch, length) int64, text after text: all anchors, all positives ...
        attention_mask: (texts * batch, length) int64, 1 for tokens.
        texts: per example.
        changed: number of a text -> what is changed in its embeddings, where something is.
        labels: (batch,) int64 class of each example, `None` where examples have none.
        prompts: number of a text -> tokens of the prompt that it begins with, where there is one;
            some poolings leave them out.
        states: (texts * batch, length, dim) what the frozen layers made of them, where there are
            such and they have run.
        teacher: (batch, n) a teacher's scores of the texts of each example's list, `None` without.
    """

    input_ids: Tensor
    attention_mask: Tensor
    texts: int = 1
    changed: Mapping[int, EmbeddingChanges] = field(default_factory=dict)
    labels: Tensor | None = None
    prompts: Mapping[int, int] = field(default_factory=dict)
    states: Tensor | None = None
    teacher: Tensor | None = None

    def __len__(self) -> int:
        return len(self.input_ids) // self.texts

    def to(self, device: torch.device) -> Batch:
        """Move the batch to a device."""
        changed = {text: changes.to(device) for text, changes in self.changed.items()}
        moved: dict[str, Any] = {
            name: x.to(device) for name, x in vars(self).items() if isinstance(x, Tensor)
        }
        return replace(self, changed=changed, **moved)

    def stack(self, texts: Sequence[int]) -> Batch:
        """Return a batch of single texts: these, one after the other (view-major rows).

        Either none of them is changed or all are; the prompt of the first counts.
        """
        if self.texts == len(texts) == 1:
            return self

        def stacked(rows: Tensor) -> Tensor:
            of_text = rows.chunk(self.texts)
            return torch.cat([of_text[t] for t in texts])

        parts = [self.changed[t] for t in texts if t in self.changed]
        return Batch(
            stacked(self.input_ids),
            stacked(self.attention_mask),
            changed={0: changes.concatenated(parts)} if parts else {},
            prompts={0: self.prompts[texts[0]]} if texts[0] in self.prompts else {},
            states=None if self.states is None else stacked(self.states),
        )

    def rows(self, rows: Tensor) -> Batch:
        """Return these examples of a batch whose embeddings are not changed."""

        def chosen(of_all: Tensor) -> Tensor:
            by_text = of_all.reshape(self.texts, len(self), *of_all.shape[1:])
            return by_text[:, rows].flatten(0, 1)

        ids, mask = chosen(self.input_ids), chosen(self.attention_mask)
        states = None if self.states is None else chosen(self.states)
        return Batch(ids, mask, self.texts, prompts=self.prompts, states=states)

    def parts(self, tokens: int) -> list[Tensor]:
        """Split the examples into parts of at most so many tokens; return the rows of each.

        Examples of like length are together.
        """
        lengths = self.attention_mask.view(self.texts, len(self), -1).sum((0, 2))
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
        """Split the texts by length where padding all to the longest is a waste; return the rows.

        Attention takes time by the square of the length; a part is cut in two for as long as that
        saves a third of it.
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
        """Cut the padding behind the longest text."""
        length = int(self.attention_mask.sum(1).max())
        ids, mask = self.input_ids[:, :length], self.attention_mask[:, :length]
        changed = {text: changes.cut(length) for text, changes in self.changed.items()}
        states = None if self.states is None else self.states[:, :length]
        return Batch(ids, mask, self.texts, changed, prompts=self.prompts, states=states)
