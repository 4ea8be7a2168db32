"""Changes of a sentence's embeddings, before the first layer, which a view may ask for.

Draws are made as for edits: they depend on the seed, the place of the batch in the run and the
sentence alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Perturbation(ABC):
    """What happens to the embeddings of the words, to their positions, or to the layer's output.

    Attributes:
        stream: as of edits: with the same name the same draws; by itself every view has its own.
    """

    stream: str = field(default="", kw_only=True)

    added_by = ""
    """The companion that adds to the embeddings of the words (a `companions.LastGradient`)."""

    def positions(self, length: int, random: np.random.Generator) -> NDArray[np.int64]:
        """(length,) the position of each token, special ones counted; by itself its place."""
        return np.arange(length)

    def kept(self, length: int, dim: int, random: np.random.Generator) -> NDArray[np.bool_]:
        """What is not set to 0, of a shape that broadcasts to (length, dim); by itself all."""
        return np.ones((1, 1), dtype=bool)

    @abstractmethod
    def __str__(self) -> str:
        """In a word or two, for the plan in words."""


@dataclass(frozen=True)
class ShuffledPositions(Perturbation):
    """The tokens exchange their positions, the special ones too (ConSERT, section 3.3)."""

    def positions(self, length: int, random: np.random.Generator) -> NDArray[np.int64]:
        """A permutation."""
        return random.permutation(length)

    def __str__(self) -> str:
        return "with shuffled positions"


@dataclass(frozen=True)
class CutOff(Perturbation):
    """Sets some of the embeddings to 0; nothing is scaled up (ConSERT, section 3.3).

    Attributes:
        of: features are zero at all tokens, tokens in all features; elements are single numbers.
        rate: this share of them, rounded down.
    """

    of: Literal["features", "tokens", "elements"] = "features"
    rate: float = 0.2

    def kept(self, length: int, dim: int, random: np.random.Generator) -> NDArray[np.bool_]:
        """(1, dim), (length, 1) or (length, dim)."""
        shape = {"features": (1, dim), "tokens": (length, 1), "elements": (length, dim)}[self.of]
        size = shape[0] * shape[1]
        kept = np.ones(size, dtype=bool)
        kept[random.permutation(size)[: int(size * self.rate)]] = False
        return kept.reshape(shape)

    def __str__(self) -> str:
        return f"with {self.rate:.0%} of the {self.of} cut off"


@dataclass(frozen=True)
class GradientSign(Perturbation):
    """Moves the embeddings of the words along the sign of their last gradient (MoCoSE).

    Views of one `stream` are moved alike; the step is that of the companion.
    """

    added_by = "gradient"

    def __str__(self) -> str:
        return "with a gradient step"
