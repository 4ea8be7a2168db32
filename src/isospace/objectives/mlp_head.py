"""The heads that several objectives choose by a field: SimCSE's tanh MLP, a projector.

Apart from `heads`, which needs torch, as a help text does not.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from isospace.objectives import heads
from isospace.objectives.base import HeadChoice, Widths


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


class Projected:
    """As `MLPOrNone`, by the field `projector`."""

    projector: Widths
    first_bias: ClassVar[bool] = False
    """Whether the first layer has a bias; the others have none."""

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        return f"projector {'-'.join(map(str, self.projector))}" if self.projector else "none"

    def build_head(self, dim: int, seed: int) -> torch.nn.Module:
        """The projector."""
        generator = heads.seeded(seed)
        return heads.Projector(dim, self.projector, generator, first_bias=self.first_bias)
