"""GS-InfoNCE: Gaussian noise as further negatives."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import PositiveInt

from isospace.objectives import heads
from isospace.objectives.base import HeadChoice, Paper
from isospace.objectives.contrast import Contrast, Plan
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import View, Views


@settings
class GSInfoNCE(Contrast):
    r"""InfoNCE whose negatives are extended by random directions.

    $$\ell_i = -\log \frac{e^{\cos(z_i, z'_i)/\tau}}
        {\sum_j e^{\cos(z_i, z'_j)/\tau} + \sum_{m=1}^M e^{\cos(z_i, g_m)/\tau}}, \qquad
      g_m \sim \mathcal N(0, I)$$

    $g$: drawn anew in every step, the same for all sentences, never passed through the head.
    Relations: M = 0 would be `simcse`; `mixcse` mixes its further negatives from the batch. The
    released code has a standard deviation of the noise (0.1 to 0.5), which a cosine does not see,
    so there is none here. The published numbers use a higher dropout rate of the encoder for BERT
    (0.2, a setting of the run), 0.1 for RoBERTa.
    """

    noise_rows: PositiveInt = 192
    """M, noise vectors in a step (code; 3 times the batch of 64)."""
    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none."""

    paper: ClassVar[Paper] = Paper("wu-etal-2022-smoothed")

    @property
    def plan(self) -> Plan:
        """Two views under dropout; the noise travels as further views behind the head."""
        head = heads.in_turn(
            heads.mlp_or_none(self.head),
            lambda dim, generator: heads.GaussianRows(self.noise_rows, generator),
        )
        return Plan((View(), View()), head, self.logits)

    def logits(self, views: Views) -> torch.Tensor:
        """Compare anchors with the batch and the noise."""
        z1, z2, *packed = views.projected
        noise = torch.cat(packed)[: self.noise_rows]
        return similarity.cosine_matrix(z1, torch.cat([z2, noise])) / self.temperature
