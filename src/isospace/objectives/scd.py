"""SCD: two dropout rates, repelled in embedding space and decorrelated in a projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from isospace.objectives.barlow_twins import (
    correlation_terms,
    describe_projector,
    diagonal_terms,
    require_widths,
    unit_columns,
)
from isospace.objectives.base import Objective, Paper, View, Views, require, require_not_negative
from isospace.objectives.heads import Projector, seeded
from isospace.operators.similarity import cosine_pairs


def printed_correlation(a: Tensor, b: Tensor) -> Tensor:
    """Eq. 3 as printed: `C_jk = sum_i a_ij b_ik / sqrt(sum_i a_ij^2 b_ik^2)`."""
    return (a.T @ b) / (a.square().T @ b.square()).sqrt()


@dataclass(frozen=True)
class SCD(Objective):
    r"""Self-contrast plus decorrelation, without negatives.

    $$\ell = w\,\frac1N \sum_i \frac{\cos(h_i, h'_i)}{\tau}
      + \alpha \Big( \sum_j (1 - C_{jj})^2 + \lambda \sum_{j \ne k} C_{jk}^2 \Big), \qquad
      C = \tilde p^\top \tilde p' / N$$

    $h, h'$: encoder outputs at a low and a high dropout rate, pushed apart; $\tilde p$: their
    projections, columns standardised. One weight at 0 leaves the other term alone. Relations: the
    second term is `barlow-twins`; nothing holds the embeddings together but that term.

    Where paper and released code differ:
    - Eq. 3 and 4 as printed (`variant="printed"`) are no correlation (C_jj reaches sqrt(N)) and
      reward C_jj far from 1; the default follows the code, which is what the text describes.
    - Paper: w 1, no temperature, alpha 0.005, lambda 0.013, rates 0.05 and 0.15 (the defaults).
      Code: tau 0.05, alpha 0.005225, lambda 0.012, rates 0.05 and 0.155: relative to the first
      term, the second weighs 19 times less than in the paper.
    - RoBERTa (paper): alpha 0.0033, lambda 0.028, rates 0.065 and 0.24.
    """

    self_contrast_weight: float = 1.0
    """w, weight of the self-contrast."""
    decorrelation_weight: float = 0.005
    """alpha, weight of the decorrelation."""
    off_diagonal_weight: float = 0.013
    """lambda, weight of the redundancy part within the decorrelation."""
    temperature: float = 1.0
    """tau, divides the cosines; the paper has none, the code 0.05."""
    low_dropout: float = 0.05
    """Dropout rate of the first view."""
    high_dropout: float = 0.15
    """Dropout rate of the second view."""
    projector: tuple[int, ...] = (4096, 4096, 4096)
    """Widths of the projector."""
    eps: float = 1e-5
    """Added to the variance of every column (batch norm's)."""
    variant: Literal["released", "printed"] = "released"
    """The correlation and its sign as in the code, or as printed in Eq. 3 and 4."""

    paper: ClassVar[Paper] = Paper(
        title="SCD: Self-Contrastive Decorrelation of Sentence Embeddings",
        year=2022,
        url="https://aclanthology.org/2022.acl-short.44",
        bibtex="""@inproceedings{klein-nabi-2022-scd,
    title = {{SCD}: Self-Contrastive Decorrelation of Sentence Embeddings},
    author = {Klein, Tassilo and Nabi, Moin},
    booktitle = {Proceedings of ACL 2022},
    pages = {394--400},
    year = {2022},
    url = {https://aclanthology.org/2022.acl-short.44},
}""",
    )
    term_names: ClassVar[tuple[str, ...]] = ("self_contrast", "on_diagonal", "off_diagonal")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.temperature > 0, f"temperature must be above 0; got {self.temperature}")
        for rate in (self.low_dropout, self.high_dropout):
            require(0 <= rate < 1, f"a dropout rate lies in [0, 1); got {rate}")
        require(
            self.low_dropout <= self.high_dropout,
            "low_dropout must not be above high_dropout; "
            f"got {self.low_dropout} and {self.high_dropout}",
        )
        require(self.high_dropout > 0, "high_dropout must be above 0: at 0 both views are the same")
        require_not_negative(
            self, "self_contrast_weight", "decorrelation_weight", "off_diagonal_weight", "eps"
        )
        require(
            self.self_contrast_weight > 0 or self.decorrelation_weight > 0,
            "self_contrast_weight and decorrelation_weight must not both be 0: nothing is learnt",
        )
        require_widths(self.projector)

    @property
    def views(self) -> tuple[View, ...]:
        """The same sentence at a low and at a high rate."""
        return (View(dropout=self.low_dropout), View(dropout=self.high_dropout))

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        return describe_projector(self.projector)

    def build_head(self, dim: int, seed: int) -> nn.Module:
        """The projector; its first layer has a bias, the others have none."""
        return Projector(dim, self.projector, seeded(seed), first_bias=True)

    def terms(self, views: Views) -> dict[str, Tensor]:
        """Self-contrast on what the encoder gave, decorrelation on the projection."""
        if self.variant == "printed":
            sign, (on, off) = -1, diagonal_terms(printed_correlation(*views.projected))
        else:
            columns = (unit_columns(p, eps=self.eps) for p in views.projected)
            sign, (on, off) = 1, correlation_terms(*columns)
        contrast = cosine_pairs(*views.encoded).mean() / self.temperature
        return {
            "self_contrast": self.self_contrast_weight * contrast,
            "on_diagonal": self.decorrelation_weight * sign * on,
            "off_diagonal": self.decorrelation_weight * self.off_diagonal_weight * off,
        }
