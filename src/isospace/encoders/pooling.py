"""Sentence poolings, one formula each, and names of numerical precisions.

In `hidden_states` of transformers, index 0 is the embedding layer, and index L the last of L
layers. Papers use "first-last average" for two poolings: SimCSE and WhitenedCSE average layers 1
and L, SCD and SimCSE++ average layers 0 and L. Here each pooling has its own name. The settings
import this module, so it does not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Precision = Literal["float32", "bf16"]
PoolingName = Literal["cls", "mean", "first_last", "embedding_last", "last2", "lasttoken"]


@dataclass(frozen=True)
class PoolingRule:
    """A pooling: mean of some layers, then the first token, the last token, or the token mean.

    Attributes:
        layers: indices into `hidden_states`, averaged with equal weight; negative: from L.
        tokens: "cls" takes position 0; "mean" averages the positions that the mask marks;
            "lasttoken" takes the last marked position, with padding on either side.
    """

    layers: tuple[int, ...]
    tokens: Literal["cls", "mean", "lasttoken"]


POOLINGS: dict[PoolingName, PoolingRule] = {
    "cls": PoolingRule((-1,), "cls"),
    "mean": PoolingRule((-1,), "mean"),
    "first_last": PoolingRule((1, -1), "mean"),
    "embedding_last": PoolingRule((0, -1), "mean"),
    "last2": PoolingRule((-2, -1), "mean"),
    "lasttoken": PoolingRule((-1,), "lasttoken"),
}
