"""Changes of a sentence's embeddings before the first layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isospace.views.view import Perturbation


@dataclass(frozen=True)
class ShuffledPositions(Perturbation):
    """A permutation of the tokens' positions, special tokens too (ConSERT, section 3.3)."""

    def positions(self, length: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return a permutation."""
        return random.permutation(length)

    def __str__(self) -> str:
        return "with shuffled positions"


@dataclass(frozen=True)
class CutOff(Perturbation):
    """Setting some embeddings to 0, without scaling up the rest (ConSERT, section 3.3).

    Attributes:
        of: features are set to 0 at all tokens, tokens in all features, elements one by one.
        rate: the share, rounded down.
    """

    of: Literal["features", "tokens", "elements"] = "features"
    rate: float = 0.2

    def kept(self, length: int, dim: int, random: np.random.Generator) -> NDArray[np.bool_]:
        """Return a mask (1, dim), (length, 1) or (length, dim)."""
        shape = {"features": (1, dim), "tokens": (length, 1), "elements": (length, dim)}[self.of]
        size = shape[0] * shape[1]
        kept = np.ones(size, dtype=bool)
        kept[random.permutation(size)[: int(size * self.rate)]] = False
        return kept.reshape(shape)

    def __str__(self) -> str:
        return f"with {self.rate:.0%} of the {self.of} cut off"


@dataclass(frozen=True)
class GradientSign(Perturbation):
    """A step of the word embeddings along the sign of their last gradient (MoCoSE).

    Views of one `stream` move alike; an auxiliary `LastGradient` gives the step.
    """

    added_by = "gradient"

    def __str__(self) -> str:
        return "with a gradient step"
