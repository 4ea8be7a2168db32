"""SCD: two dropout rates, repelled in embedding space and decorrelated in a projection."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat

from isospace.errors import UserError
from isospace.losses.correlation import decorrelation, self_contrast
from isospace.objectives.base import Objective, Paper, Projected, Widths
from isospace.system.settings import DropoutRate, settings
from isospace.views import View, Views


@settings
class SCD(Projected, Objective):
    r"""Self-contrast plus decorrelation, without negatives.

    $$\ell = w\,\frac1N \sum_i \frac{\cos(h_i, h'_i)}{\tau}
      + \alpha \Big( \sum_j (1 - C_{jj})^2 + \lambda \sum_{j \ne k} C_{jk}^2 \Big), \qquad
      C = \tilde p^\top \tilde p' / N$$

    $h, h'$: encoder outputs at a low and a high dropout rate, pushed apart; $\tilde p$: their
    projections, columns standardised. One weight at 0 leaves the other term alone. Relations: the
    second term is `barlow-twins`; only that term holds the embeddings together. Pairs of
    texts are refused: the first term pushes the views apart, as far as noise makes them differ.

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
    term_names: ClassVar[tuple[str, ...]] = ("self_contrast", "on_diagonal", "off_diagonal")
    first_bias: ClassVar[bool] = True
    one_text_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.low_dropout > self.high_dropout:
            raise UserError(
                f"`low_dropout` {self.low_dropout}: must be at most `high_dropout` "
                f"{self.high_dropout}"
            )

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
