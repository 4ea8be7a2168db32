"""VICReg: penalties on variances and covariances; and InfoNCE with such a penalty."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import NonNegativeFloat, PositiveFloat

from isospace.losses.contrastive import info_nce
from isospace.losses.correlation import identity_distance, shared_variance, variance_hinge
from isospace.objectives.base import MLPOrNone, Objective, Paper, Projected, Widths
from isospace.system.settings import settings
from isospace.views import Views


@settings
class VICReg(Projected, Objective):
    r"""Invariance, variance and covariance of two projected views, without negatives.

    $$\ell = \lambda\, \frac{1}{ND} \sum_i \|p_i - p'_i\|^2
      + \frac{\mu}{2} \sum_{x \in p, p'} \frac1D \sum_j \max(0, \gamma - \sqrt{\mathrm{Var}_j(x)
      + \epsilon}) + \nu \sum_{x \in p, p'} \frac1D \sum_{j \ne k} \mathrm{Cov}_{jk}(x)^2$$

    $p, p'$: N projections of width D; $\gamma = 1$, $\epsilon = 10^{-4}$; variances and
    covariances with divisor N - 1. It was made for images and large batches. Relations:
    `barlow-twins` correlates the dimensions of two views, this those of each view;
    `covariance-identity` adds a like penalty to InfoNCE.
    Paper and released code differ: the paper sums the squared distance over D and does not halve
    the variances. Its first term is then D times larger; the default follows the code, with which
    25, 25 and 1 belong together. Biases before batch norm are left out: they change nothing.
    `contrast_weight` adds InfoNCE of the projections, which neither has.
    """

    invariance_weight: NonNegativeFloat = 25.0
    """lambda, weight of the distance between the views."""
    variance_weight: NonNegativeFloat = 25.0
    """mu, weight of the hinge on the standard deviations."""
    covariance_weight: NonNegativeFloat = 1.0
    """nu, weight of the covariances."""
    contrast_weight: NonNegativeFloat = 0.0
    """Weight of InfoNCE, a fourth term; 0, the paper's, leaves it out."""
    temperature: PositiveFloat = 0.05
    """tau, divides the cosines of InfoNCE."""
    projector: Widths = (8192, 8192, 8192)
    """Widths of the projector; an empty list compares what the encoder gives."""
    variant: Literal["released", "paper"] = "released"
    """Squared distance averaged over D and variances halved (released), or neither (paper)."""

    paper: ClassVar[Paper] = Paper("bardes-etal-2022-vicreg")

    @property
    def term_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The paper's three, and InfoNCE where it has a weight."""
        return ("invariance", "variance", "covariance", *["info_nce"] * (self.contrast_weight > 0))

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        a, b = views.projected
        distance = (a - b).square().mean()
        variance = variance_hinge(a) + variance_hinge(b)
        if self.variant == "released":
            variance = variance / 2
        else:
            distance = distance * a.shape[1]
        terms = {
            "invariance": self.invariance_weight * distance,
            "variance": self.variance_weight * variance,
            "covariance": self.covariance_weight * (shared_variance(a) + shared_variance(b)),
        }
        if self.contrast_weight:
            contrast = info_nce(a, b, self.temperature)
            terms["info_nce"] = self.contrast_weight * contrast
        return terms


@settings
class CovarianceIdentity(MLPOrNone):
    r"""InfoNCE plus a penalty on the covariance of what the encoder gives.

    $$\ell = w\,\ell_\mathrm{InfoNCE}(z, z')
      + \lambda \frac1V \sum_v \frac1d \Big\| \frac{d}{\mathrm{tr}\,C_v} C_v - I \Big\|_F^2, \qquad
      C_v = \mathrm{Cov}(h_v)$$

    $h_v$: view v before the head, where `whitenedcse` would whiten. The question is that of a talk
    on WhitenedCSE: if mild whitening is enough, would a loss do? The identity is meant up to a
    scale, which cosines do not see. With a batch of N < d the penalty cannot fall below
    d / (N - 1) - 1; w = 0 leaves it alone. Relations: no paper has this exact form; the nearest are
    the terms of `vicreg`, and `dcl`, which compares the dimensions of two views.
    """

    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""
    contrast_weight: NonNegativeFloat = 1.0
    """w, weight of InfoNCE; 0 leaves the penalty alone."""
    covariance_weight: NonNegativeFloat = 0.01
    """lambda, weight of the penalty (ours)."""

    paper: ClassVar[Paper] = Paper("bardes-etal-2022-vicreg")
    term_names: ClassVar[tuple[str, ...]] = ("info_nce", "covariance")

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        z1, z2 = views.projected
        distances = torch.stack([identity_distance(view) for view in views.encoded])
        return {
            "info_nce": self.contrast_weight * info_nce(z1, z2, self.temperature),
            "covariance": self.covariance_weight * distances.mean(),
        }
