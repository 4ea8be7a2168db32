"""MixCSE: hard negatives mixed from the positive and another sentence of the batch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field

from isospace.losses.contrastive import mixed_cosines
from isospace.objectives import heads
from isospace.objectives.base import HeadChoice, Paper
from isospace.objectives.contrast import Contrast, Plan
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import View, Views


@settings
class MixCSE(Contrast):
    r"""InfoNCE with negatives that are mixed from the positive and another sentence.

    $$\ell_i = -\log \frac{e^{s(z_i, z'_i)}}{\sum_j e^{s(z_i, z'_j)} + \sum_{j \ne i-1}
      e^{s(z_i, m'_j)} + \sum_{j \ne i+1} e^{s(m_i, z'_j)}}, \qquad
      m_j = \mathrm{sg}(\lambda z_j + (1 - \lambda) z_{j+1})$$

    $s = \cos/\tau$; $m'$: the same of the second view; sg: a constant; the row after the last is
    the first. A mix that is mostly the anchor's own positive is excluded. Relations:
    without the mixes it is `simcse`; `gs-infonce` adds noise as negatives instead.

    Where paper and released code differ:
    - Code: all N mixes of either view count for every anchor. Paper (`variant="paper"`): vectors of
      length 1 are mixed, and an anchor has one mix, that of its own positive. The default follows
      the code, which gave the published numbers, except for one mistake.
    - The code multiplies the logits of the excluded cells by 0 (`variant="released"`), which leaves
      them as negatives of cosine 0. The default excludes them; the loss hardly differs.
    - The paper's partner is a random sentence of the batch. The code's is the next row, which in a
      shuffled batch is the same; so it is here.
    """

    mix_weight: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """lambda, share of the positive in a mix."""
    variant: Literal["masked", "released", "paper"] = "masked"
    """Excluded cells excluded (masked) or at logit 0 (released); or one mix per anchor (paper)."""
    stop_gradient: bool = True
    """Treat the mixes as constants (paper and code)."""
    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none."""

    paper: ClassVar[Paper] = Paper("zhang-etal-2022-mixing")

    @property
    def plan(self) -> Plan:
        """Two views under dropout."""
        return Plan((View(), View()), heads.mlp_or_none(self.head), self.logits)

    def logits(self, views: Views) -> torch.Tensor:
        """Compare anchors with the batch and the mixes."""
        z1, z2 = views.projected
        mixed = mixed_cosines(
            z1, z2, self.mix_weight, variant=self.variant, stop_gradient=self.stop_gradient
        )
        return torch.cat([similarity.cosine_matrix(z1, z2), mixed], dim=1) / self.temperature
