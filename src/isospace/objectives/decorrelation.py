"""Objectives on correlations of dimensions: SCD, Barlow Twins, VICReg, two studies with InfoNCE."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from isospace.losses.contrastive import info_nce
from isospace.losses.correlation import (
    barlow_twins,
    correlation_terms,
    decorrelation,
    identity_distance,
    self_contrast,
    shared_variance,
    variance_hinge,
)
from isospace.objectives import heads
from isospace.objectives.base import Objective, OnCosines, Paper, Projected, Widths
from isospace.system.settings import DropoutRate, settings
from isospace.views import View, Views


@settings
class VICReg(Projected, Objective):
    r"""Invariance, variance and covariance of two projected views, without negatives.

    $$\ell = \lambda\, \frac{1}{ND} \sum_i \|p_i - p'_i\|^2
      + \frac{\mu}{2} \sum_{x \in p, p'} \frac1D \sum_j \max(0, \gamma - \sqrt{\mathrm{Var}_j(x)
      + \epsilon}) + \nu \sum_{x \in p, p'} \frac1D \sum_{j \ne k} \mathrm{Cov}_{jk}(x)^2$$

    $p, p'$: N projections of width D; $\gamma = 1$, $\epsilon = 10^{-4}$; divisor N - 1. It was
    made for images and large batches. Relations: `barlow-twins` correlates the dimensions of two
    views, this those of each view; `covariance-identity` adds a like penalty to InfoNCE.
    Paper and released code differ: the paper sums the squared distance over D and does not halve
    the variances. Its first term is then D times larger; the default follows the code, with which
    25, 25 and 1 belong together. Biases before batch norm are left out: they change nothing.
    """

    invariance_weight: NonNegativeFloat = 25.0
    """lambda, weight of the distance between the views."""
    variance_weight: NonNegativeFloat = 25.0
    """mu, weight of the hinge on the standard deviations."""
    covariance_weight: NonNegativeFloat = 1.0
    """nu, weight of the covariances."""
    contrast_weight: NonNegativeFloat = 0.0
    """Weight of InfoNCE of the projections, which neither paper nor code has; 0 leaves it out."""
    temperature: PositiveFloat = 0.05
    """tau, divides the cosines of InfoNCE."""
    projector: Widths = (8192, 8192, 8192)
    """Widths of the projector; an empty list compares what the encoder gives."""
    variant: Literal["released", "paper"] = "released"
    """Squared distance averaged over D and variances halved (released), or neither (paper)."""

    paper: ClassVar[Paper] = Paper("bardes-etal-2022-vicreg")

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
class CovarianceIdentity(OnCosines):
    r"""InfoNCE plus a penalty on the covariance of what the encoder gives.

    $$\ell = w\,\ell_\mathrm{InfoNCE}(z, z')
      + \lambda \frac1V \sum_v \frac1d \Big\| \frac{d}{\mathrm{tr}\,C_v} C_v - I \Big\|_F^2, \qquad
      C_v = \mathrm{Cov}(h_v)$$

    $h_v$: view v before the head, where `whitenedcse` would whiten. It tests whether a loss can
    replace mild whitening. The identity is meant up to a scale, which cosines do not see. With a
    batch of N < d the penalty cannot fall below d / (N - 1) - 1. Relations: no paper has this exact
    form; the nearest are `vicreg`, and `dcl`, which compares the dimensions of two views.
    """

    contrast_weight: NonNegativeFloat = 1.0
    """w, weight of InfoNCE; 0 leaves the penalty alone."""
    covariance_weight: NonNegativeFloat = 0.01
    """lambda, weight of the penalty (ours)."""

    paper: ClassVar[Paper] = Paper("bardes-etal-2022-vicreg")

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        z1, z2 = views.projected
        distances = torch.stack([identity_distance(view) for view in views.encoded])
        return {
            "info_nce": self.contrast_weight * info_nce(z1, z2, self.temperature),
            "covariance": self.covariance_weight * distances.mean(),
        }


@settings
class BarlowTwins(Projected, Objective):
    r"""Cross-correlation of two views driven to the identity, without negatives.

    $$\ell = \sum_j (1 - C_{jj})^2 + \lambda \sum_{j \ne k} C_{jk}^2, \qquad
      C = \tilde p^\top \tilde p' / N$$

    $\tilde p$: the projector's output, columns standardised over the batch (batch norm without
    affine part). Relations: the second half of `scd`; `rank-study` adds it to InfoNCE. It was made
    for images and batches of thousands; on sentences, with the batch far below the dimension, it
    is known to do badly. Paper: lambda 0.005; code: 0.0051, the default.
    """

    off_diagonal_weight: NonNegativeFloat = 0.0051
    """lambda, weight of the redundancy term."""
    projector: Widths = (8192, 8192, 8192)
    """Widths of the projector; an empty list compares what the encoder gives."""

    paper: ClassVar[Paper] = Paper("zbontar-etal-2021-barlow")

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        on, off = barlow_twins(*views.projected)
        return {"on_diagonal": on, "off_diagonal": self.off_diagonal_weight * off}


_ROWS_SEED = 5_930_704
"""Seed of the artificial rows. A run with the same seed would draw them as weights of its head."""


@settings
class RankStudy(OnCosines):
    r"""InfoNCE plus Barlow Twins on the same vectors, with R artificial rows that lift the rank.

    $$\ell = \ell_\mathrm{InfoNCE}(z, z') + w \Big( \sum_j (1 - C_{jj})^2
      + \lambda \sum_{j \ne k} C_{jk}^2 \Big)$$

    C: cross-correlation of the views' columns over the N rows of the batch and R fixed rows
    $\sim \mathcal N(0, 1)$, the same in both views and all runs. With N far below D the correlation
    cannot have full rank; the rows give it. They also dilute the second term's gradient; the
    control is no rows and w scaled by N / (N + R). Relations: the sum of `simcse` and
    `barlow-twins` without a projector; `dcl` is the other answer to the same bottleneck.
    Paper and released code differ: the paper does not centre columns and names neither w nor
    lambda. The default follows a commented-out helper of the code, which has 0.1 and 0.012.
    """

    rows: NonNegativeInt = 0
    """R, artificial rows: 0, 100, 300 or 704 in the paper."""
    barlow_weight: NonNegativeFloat = 0.1
    """w, weight of the Barlow Twins term (code)."""
    off_diagonal_weight: NonNegativeFloat = 0.012
    """lambda, weight of its redundancy part (code)."""
    variant: Literal["released", "paper"] = "released"
    """Columns standardised (released), or only normalised (paper)."""

    paper: ClassVar[Paper] = Paper("xu-etal-2023-simcse")

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        z1, z2 = views.projected
        rows = torch.randn(self.rows, z1.shape[1], generator=heads.seeded(_ROWS_SEED)).to(z1)
        with_rows = (torch.cat([z1, rows]), torch.cat([z2, rows]))
        if self.variant == "released":
            on, off = barlow_twins(*with_rows)
        else:
            columns = [torch.nn.functional.normalize(z, dim=0) for z in with_rows]
            on, off = correlation_terms(*columns)
        return {
            "info_nce": info_nce(z1, z2, self.temperature),
            "on_diagonal": self.barlow_weight * on,
            "off_diagonal": self.barlow_weight * self.off_diagonal_weight * off,
        }


@settings
class SCD(Projected, Objective):
    r"""Self-contrast plus decorrelation, without negatives.

    $$\ell = w\,\frac1N \sum_i \frac{\cos(h_i, h'_i)}{\tau}
      + \alpha \Big( \sum_j (1 - C_{jj})^2 + \lambda \sum_{j \ne k} C_{jk}^2 \Big), \qquad
      C = \tilde p^\top \tilde p' / N$$

    $h, h'$: encoder outputs at a low and a high dropout rate, pushed apart, so pairs of texts are
    refused; $\tilde p$: their projections, columns standardised. Relations: the second term is
    `barlow-twins`; only that term holds the embeddings together.

    Where paper and released code differ:
    - Eq. 3 and 4 as printed (`variant="printed"`) are no correlation (C_jj reaches sqrt(N)) and
      reward C_jj far from 1; the default follows the code, which is what the text describes.
    - Paper: w 1, no temperature, alpha 0.005, lambda 0.013, rates 0.05 and 0.15 (the defaults).
      Code: tau 0.05, alpha 0.005225, lambda 0.012, rates 0.05 and 0.155: relative to the first
      term, the second weighs 19 times less than in the paper.
    - RoBERTa (paper): alpha 0.0033, lambda 0.028, rates 0.065 and 0.24.
    """

    self_contrast_weight: NonNegativeFloat = 1.0
    """w, weight of the self-contrast."""
    decorrelation_weight: NonNegativeFloat = 0.005
    """alpha, weight of the decorrelation."""
    off_diagonal_weight: NonNegativeFloat = 0.013
    """lambda, weight of the redundancy part within the decorrelation."""
    temperature: PositiveFloat = 1.0
    """tau, divides the cosines; the paper has none, the code 0.05."""
    low_dropout: DropoutRate = 0.05
    """Dropout rate of the first view."""
    high_dropout: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Dropout rate of the second view."""
    projector: Widths = (4096, 4096, 4096)
    """Widths of the projector."""
    variant: Literal["released", "printed"] = "released"
    """The correlation and its sign as in the code, or as printed in Eq. 3 and 4."""

    paper: ClassVar[Paper] = Paper("klein-nabi-2022-scd")
    first_bias: ClassVar[bool] = True
    one_text_only: ClassVar[bool] = True

    @property
    def views(self) -> tuple[View, ...]:
        return (View(dropout=self.low_dropout), View(dropout=self.high_dropout))

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        first, second = views.encoded
        on, off = decorrelation(*views.projected, variant=self.variant)
        contrast = self_contrast(first, second, self.temperature)
        return {
            "self_contrast": self.self_contrast_weight * contrast,
            "on_diagonal": self.decorrelation_weight * on,
            "off_diagonal": self.decorrelation_weight * self.off_diagonal_weight * off,
        }
