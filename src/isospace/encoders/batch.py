"""Token ids of a batch: what an encoder reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Padded token ids of one batch of examples, which are sentences or have several texts.

    Attributes:
        input_ids: (texts * batch, length) int64, text after text: all anchors, all positives ...
        attention_mask: (texts * batch, length) int64, 1 for tokens.
        texts: per example.
    """

    input_ids: Tensor
    attention_mask: Tensor
    texts: int = 1

    def __len__(self) -> int:
        return len(self.input_ids) // self.texts

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        return Batch(self.input_ids.to(device), self.attention_mask.to(device), self.texts)

    def stack(self, texts: Sequence[int]) -> Batch:
        """A batch of single texts: these, one after the other (view-major rows)."""
        if self.texts == len(texts) == 1:
            return self
        ids, mask = (x.chunk(self.texts) for x in (self.input_ids, self.attention_mask))
        return Batch(torch.cat([ids[t] for t in texts]), torch.cat([mask[t] for t in texts]))
