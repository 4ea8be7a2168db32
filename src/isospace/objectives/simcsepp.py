"""SimCSE++: negatives without dropout, a contrast between dimensions, both; a study of noise."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from isospace.losses.contrastive import diagonal_cross_entropy, info_nce, off_dropout
from isospace.losses.correlation import dimension_contrast
from isospace.objectives import heads
from isospace.objectives.base import OnCosines, Paper
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import View, Views

Variant = Literal["released", "paper"]


@settings
class OffDropout(OnCosines):
    r"""InfoNCE whose negatives are dropout-free.

    $$\ell_i = -\log \frac{e^{m p_i}}{e^{m p_i} + \sum_{j \ne i} e^{n_{ij}}}, \qquad
      p_i = \cos(z_i, z'_i)/\tau, \quad n_{ij} = \cos(\hat z_i, \hat z_j)/\tau$$

    $z, z'$: two dropout views; $\hat z$: the clean view, with gradient. Mean over the batch.
    Relations: with all views equal and m = 1 it is `simcse`; `simcse++` adds the `dcl` term.
    Paper and released code differ: Eq. 3 has $e^{p_i} / (e^{p_i} + m \sum_{j \ne i} e^{n_{ij}})$.
    With m = 0.9 the first makes negatives count more, the second less. The default follows the
    code, because the paper's own sensitivity to m only fits that form.
    """

    m: PositiveFloat = 0.9
    """m, on the positive's logit (released) or on the sum over negatives (paper)."""
    variant: Variant = "released"
    """The place of m, as in the released code or in Eq. 3."""

    paper: ClassVar[Paper] = Paper("xu-etal-2023-simcse")

    @property
    def views(self) -> tuple[View, ...]:
        return (View(), View(), View(dropout=0.0))

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        z1, z2, clean = views.projected
        return {
            "off_dropout": off_dropout(
                z1, z2, clean, temperature=self.temperature, m=self.m, variant=self.variant
            )
        }


@settings
class DCL(OnCosines):
    r"""InfoNCE plus the dimension-wise contrastive loss.

    $$\ell = w\,\ell_\mathrm{InfoNCE} + \lambda \frac1D \sum_c -\log
      \frac{e^{S_{cc}/\tau_D}}{\sum_d e^{S_{cd}/\tau_D}}, \qquad
      S = \tilde z^\top \tilde z' / N$$

    $\tilde z$: columns standardised over the batch. Relations: w = 0 is the term alone (the paper's
    fine-tuning with it, $\tau_D$ 0.05); `barlow-twins` drives the same S to identity by squares.
    Paper and released code differ: Eq. 5 has the plain dot product (no 1/N), the sum over c, and
    the divisor N - 1; the code adds 1e-5 to the variance. Gradients differ by about D N, so one
    lambda cannot serve both; the default follows the code, with which 0.1 and 5 were tuned. One
    released file fixes $\tau_D$ at 10.
    """

    contrast_weight: NonNegativeFloat = 1.0
    """w, weight of InfoNCE; 0 leaves the dimension-wise term alone."""
    dimension_weight: NonNegativeFloat = 0.1
    """lambda, weight of the dimension-wise term."""
    dimension_temperature: PositiveFloat = 5.0
    """tau_D, divides the correlations."""
    variant: Variant = "released"
    """Scale of the dimension-wise term: released code, or Eq. 5."""

    paper: ClassVar[Paper] = Paper("xu-etal-2023-simcse")

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        z1, z2 = views.projected
        between_dimensions = dimension_contrast(
            z1, z2, temperature=self.dimension_temperature, variant=self.variant
        )
        return {
            "info_nce": self.contrast_weight * info_nce(z1, z2, self.temperature),
            "dimension_contrast": self.dimension_weight * between_dimensions,
        }


@settings
class SimCSEPP(OffDropout):
    r"""Negatives without dropout plus contrast between dimensions: `off-dropout` + `dcl`'s term.

    $$\ell = \ell_\mathrm{off\text{-}dropout}(z, z', \hat z) + \lambda\,\ell_\mathrm{DCL}(z, z')$$

    Relations: `OffDropout` and `DCL` explain the symbols, and where paper and code differ. The
    released trainer has the second term commented out and m = 1; this class adds it (paper).
    """

    variant: Variant = "released"
    """Form of both terms: released code, or Eq. 3 and 5."""
    dimension_weight: NonNegativeFloat = 0.1
    """lambda, weight of the dimension-wise term."""
    dimension_temperature: PositiveFloat = 5.0
    """tau_D, divides the correlations."""

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        z1, z2, _ = views.projected
        between_dimensions = dimension_contrast(
            z1, z2, temperature=self.dimension_temperature, variant=self.variant
        )
        return super().terms(views) | {
            "dimension_contrast": self.dimension_weight * between_dimensions
        }


@settings
class NoiseStudy(OnCosines):
    r"""InfoNCE in which one part of the softmax row has more or less noise than the rest.

    $$\ell_i = -\log \frac{e^{p_i}}{e^{p_i} + \sum_{j \ne i} e^{n_{ij}}}, \qquad
      p_i = \cos(z_i, z'_i)/\tau, \quad n_{ij} = \cos(z_i, z'_j)/\tau$$

    and in $p$ ("positives") or in $n$ ("negatives") the views $z, z'$ are replaced by less noisy
    ones, each the mean of K further dropout passes, or by noisier ones, $z + N(0, \sigma^2)$.
    Relations: without the replacement it is `simcse`; `off-dropout` is the cheap limit of less
    noise in negatives. The paper does not say whether means and noise are taken before or after the
    MLP, and there is no code; here after, on the vectors that are compared.
    """

    noise: Literal["less", "more"] = "less"
    """The paper's "-Noise" or "+Noise"."""
    part: Literal["positives", "negatives"] = "negatives"
    """The logits that are changed."""
    passes: PositiveInt = 10
    """K, passes per mean (less noise only)."""
    variance: NonNegativeFloat = 0.1
    """sigma^2 of the Gaussian (more noise only)."""

    paper: ClassVar[Paper] = Paper("xu-etal-2023-simcse")

    @property
    def views(self) -> tuple[View, ...]:
        two = (View(), View())
        if self.noise == "more":
            return two
        return (*two, *(View(of_anchor=True),) * self.passes, *(View(),) * self.passes)

    def make_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        own = super().make_head(dim, generator)
        if self.noise == "less":
            return own
        return torch.nn.Sequential(own, heads.GaussianCopies(self.variance, generator))

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        plain = views.projected[:2]
        changed = [copies.mean(0) for copies in views.projected[2:].chunk(2)]
        for_positives = changed if self.part == "positives" else plain
        for_negatives = plain if self.part == "positives" else changed
        cosines = similarity.with_diagonal(
            similarity.cosine_matrix(*for_negatives), similarity.cosine_pairs(*for_positives)
        )
        logits = cosines / self.temperature
        return {"info_nce": diagonal_cross_entropy(logits).mean()}
