"""The head of most objectives: SimCSE's tanh MLP, or nothing.

Apart from `heads`, which needs torch, as a help text does not.
"""

from __future__ import annotations

import torch

from isospace.objectives import heads
from isospace.objectives.base import HeadChoice


class MLPOrNone:
    """To inherit from beside `Objective`, whose field `head` says which."""

    head: HeadChoice  # no field here: this is no dataclass

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        return "tanh MLP" if self.head == "mlp" else "none"

    def build_head(self, dim: int, seed: int) -> torch.nn.Module:
        """The tanh MLP, or nothing."""
        return heads.mlp_or_none(self.head, dim, heads.seeded(seed))
