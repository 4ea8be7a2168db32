"""A loss that drives the batch covariance towards identity, in place of whitening."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import NonNegativeFloat, PositiveFloat

from isospace.losses.contrastive import info_nce
from isospace.losses.correlation import identity_distance
from isospace.objectives import vicreg
from isospace.objectives.base import HeadChoice, MLPOrNone, Objective, Paper
from isospace.system.settings import refuse_idle, settings
from isospace.views import Views


@settings
class CovarianceIdentity(MLPOrNone, Objective):
    r"""InfoNCE plus a penalty on the covariance of what the encoder gives.

    $$\ell = w\,\ell_\mathrm{InfoNCE}(z, z')
      + \lambda \frac1V \sum_v \frac1d \Big\| \frac{d}{\mathrm{tr}\,C_v} C_v - I \Big\|_F^2, \qquad
      C_v = \mathrm{Cov}(h_v)$$

    $h_v$: view v before the head, where `whitenedcse` would whiten. The question is that of a talk
    on WhitenedCSE: if mild whitening is enough, would a loss do? The identity is meant up to a
    scale, because cosines do not see the scale. With a batch of N < d the penalty cannot fall below
    d / (N - 1) - 1; w = 0 leaves it alone. Relations: no paper has this exact form; the nearest are
    the variance and covariance terms of `vicreg`, and `dcl`, which compares the dimensions of two
    views.
    """

    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""
    contrast_weight: NonNegativeFloat = 1.0
    """w, weight of InfoNCE; 0 leaves the penalty alone."""
    covariance_weight: NonNegativeFloat = 0.01
    """lambda, weight of the penalty (ours)."""
    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none."""

    paper: ClassVar[Paper] = vicreg.PAPER
    term_names: ClassVar[tuple[str, ...]] = ("info_nce", "covariance")
    draws_together: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._require_a_weight("contrast_weight", "covariance_weight")
        if not self.contrast_weight:
            refuse_idle(self, "`contrast_weight`", "temperature", "head")

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """Contrast after the head, and penalise before it."""
        z1, z2 = views.projected
        distances = torch.stack([identity_distance(view) for view in views.encoded])
        return {
            "info_nce": self.contrast_weight * info_nce(z1, z2, self.temperature),
            "covariance": self.covariance_weight * distances.mean(),
        }
