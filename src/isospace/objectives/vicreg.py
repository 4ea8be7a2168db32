"""VICReg: two views alike, every dimension varying, no two of them together."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import NonNegativeFloat, PositiveFloat

from isospace.losses.contrastive import info_nce
from isospace.losses.correlation import shared_variance, variance_hinge
from isospace.objectives.base import Objective, Paper, Projected, Widths
from isospace.objectives.simcsepp import Variant
from isospace.system.settings import refuse_idle, settings
from isospace.views import Views

PAPER = Paper(
    """@inproceedings{bardes-etal-2022-vicreg,
    title = {{VICReg}: Variance-Invariance-Covariance Regularization for Self-Supervised Learning},
    author = {Bardes, Adrien and Ponce, Jean and LeCun, Yann},
    booktitle = {Proceedings of ICLR 2022},
    year = {2022},
    url = {https://arxiv.org/abs/2105.04906},
}""",
)


@settings
class VICReg(Projected, Objective):
    r"""Invariance, variance and covariance of two projected views, without negatives.

    $$\ell = \lambda\, \frac{1}{ND} \sum_i \|p_i - p'_i\|^2
      + \frac{\mu}{2} \sum_{x \in p, p'} \frac1D \sum_j \max(0, \gamma - \sqrt{\mathrm{Var}_j(x)
      + \epsilon}) + \nu \sum_{x \in p, p'} \frac1D \sum_{j \ne k} \mathrm{Cov}_{jk}(x)^2$$

    $p, p'$: N projections of width D; variances and covariances with divisor N - 1. Relations:
    `barlow-twins` correlates the dimensions of two views, this those of each view;
    `covariance-identity` adds a like penalty to InfoNCE. It was made for images and large batches.
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
    """Weight of InfoNCE beside the three; 0, the paper's, leaves it out."""
    temperature: PositiveFloat = 0.05
    """tau, divides the cosines of InfoNCE."""
    target_deviation: PositiveFloat = 1.0
    """gamma, standard deviation below which a dimension is penalised."""
    projector: Widths = (8192, 8192, 8192)
    """Widths of the projector; an empty list compares what the encoder gives."""
    eps: PositiveFloat = 1e-4
    """Added to every variance under the root."""
    variant: Variant = "released"
    """Squared distance averaged over D and variances halved (released), or neither (paper)."""

    paper: ClassVar[Paper] = PAPER
    draws_together: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._require_a_weight(
            "invariance_weight", "variance_weight", "covariance_weight", "contrast_weight"
        )
        if not self.contrast_weight:
            refuse_idle(self, "`contrast_weight`", "temperature")
        if not self.variance_weight:
            refuse_idle(self, "`variance_weight`", "target_deviation", "eps")
            if not self.invariance_weight:
                refuse_idle(self, "`invariance_weight` or `variance_weight`", "variant")

    @property
    def term_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The paper's three, and InfoNCE where it has a weight."""
        return ("invariance", "variance", "covariance", *["info_nce"] * (self.contrast_weight > 0))

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """Compute the paper's three terms, and InfoNCE where it has a weight."""
        a, b = views.projected
        distance = (a - b).square().mean()
        hinges = [variance_hinge(x, target=self.target_deviation, eps=self.eps) for x in (a, b)]
        variance = hinges[0] + hinges[1]
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
