"""iso: our own composition of what is orthogonal in the three papers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from isospace.objectives import simcsepp, whitenedcse
from isospace.objectives.base import Objective, Paper, View, Views, require, require_not_negative
from isospace.objectives.heads import GroupWhitening, HeadChoice, TanhMLP, seeded


@dataclass(frozen=True)
class Iso(Objective):
    r"""Whitened positives against clean negatives, plus contrast between dimensions.

    Every sentence is seen m times with dropout and once without, each view whitened in shuffled
    groups; noisy pairs are contrasted with the clean batch, and the encoder's dimensions with each
    other.

    $$\ell = \frac1{m-1} \sum_{p=1}^{m-1} \ell_\mathrm{off\text{-}dropout}(w_0, w_p, \hat w)
      + \lambda\,\ell_\mathrm{DCL}(h_0, h_1)$$

    $w_v = \mathrm{SGW}_{\pi_v}(h_v)$, $\hat w$ the same of the clean view, $h$ what the encoder
    gives. The dimension term stands before the whitening because those dimensions are the ones
    that are shipped. Relations: from `whitenedcse` the shuffled groups and several positives, from
    `simcse++` clean negatives (m of its Eq. 3 is 1, where paper and code agree) and the dimension
    term in its released form.
    """

    num_views: int = 2
    """m, noisy views of a sentence: an anchor and m - 1 positives."""
    temperature: float = 0.15
    """tau, divides the cosines. Chosen on STS-B dev (docs/results/first-table.md): a finished
    sentence encoder has little left to learn at the papers' 0.05."""
    dimension_weight: float = 0.1
    """lambda, weight of the contrast between dimensions."""
    dimension_temperature: float = 5.0
    """tau_D, divides the correlations between dimensions."""
    groups: int | None = None
    """Number of groups of the whitening; None takes groups of 2."""
    eps: float = 1e-5
    """Added to every variance before whitening."""
    stop_gradient: bool = True
    """Treat the whitening matrix as a constant."""
    head: HeadChoice = "none"
    """Nothing after the whitening (best for trained sentence encoders), or the tanh MLP."""

    paper: ClassVar[Paper] = Paper(
        title="Own composition of WhitenedCSE and SimCSE++",
        year=2023,
        url=whitenedcse.WhitenedCSE.paper.url,
        bibtex=whitenedcse.WhitenedCSE.paper.bibtex + "\n\n" + simcsepp.PAPER.bibtex,
    )
    term_names: ClassVar[tuple[str, ...]] = ("off_dropout", "dimension_contrast")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.num_views >= 2, f"num_views must be at least 2; got {self.num_views}")
        require(self.temperature > 0, f"temperature must be above 0; got {self.temperature}")
        require(self.dimension_temperature > 0, "dimension_temperature must be above 0")
        require_not_negative(self, "dimension_weight", "eps")

    @property
    def views(self) -> tuple[View, ...]:
        """M noisy, one clean."""
        return (View(),) * self.num_views + (View(dropout=0.0),)

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        return "SGW + tanh MLP" if self.head == "mlp" else "SGW"

    def build_head(self, dim: int, seed: int) -> nn.Module:
        """Shuffled group whitening, then dense + tanh or nothing.

        Raises:
            ValueError: `groups` does not divide `dim`.
        """
        generator = seeded(seed)
        whitening = GroupWhitening(
            dim,
            max(dim // 2, 1) if self.groups is None else self.groups,
            generator,
            eps=self.eps,
            stop_gradient=self.stop_gradient,
        )
        return (
            nn.Sequential(whitening, TanhMLP(dim, generator)) if self.head == "mlp" else whitening
        )

    def terms(self, views: Views) -> dict[str, Tensor]:
        """Whitened positives against clean negatives; contrast between the encoder's dimensions."""
        anchor, *positives, clean = views.projected
        contrasts = [
            simcsepp.off_dropout(
                anchor, positive, clean, temperature=self.temperature, m=1.0, variant="released"
            )
            for positive in positives
        ]
        between_dimensions = simcsepp.dimension_contrast(
            views.encoded[0],
            views.encoded[1],
            temperature=self.dimension_temperature,
            variant="released",
        )
        return {
            "off_dropout": torch.stack(contrasts).mean(),
            "dimension_contrast": self.dimension_weight * between_dimensions,
        }
