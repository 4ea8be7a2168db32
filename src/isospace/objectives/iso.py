"""iso: our own composition of what is orthogonal in the three papers."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from isospace.objectives import heads, simcsepp, whitenedcse
from isospace.objectives.base import HeadChoice, Objective, Paper, View, Views
from isospace.system.settings import settings


@settings
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

    num_views: Annotated[int, Field(ge=2)] = 2
    """m, noisy views of a sentence: an anchor and m - 1 positives."""
    temperature: PositiveFloat = 0.15
    """tau, divides the cosines. Chosen on STS-B dev (docs/results/first-table.md): a finished
    sentence encoder has little left to learn at the papers' 0.05."""
    dimension_weight: NonNegativeFloat = 0.1
    """lambda, weight of the contrast between dimensions."""
    dimension_temperature: PositiveFloat = 5.0
    """tau_D, divides the correlations between dimensions."""
    groups: PositiveInt | None = None
    """Number of groups of the whitening; None takes groups of 2."""
    eps: NonNegativeFloat = 1e-5
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

    @property
    def views(self) -> tuple[View, ...]:
        """M noisy, one clean."""
        return (View(),) * self.num_views + (View(dropout=0.0),)

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        return "SGW + tanh MLP" if self.head == "mlp" else "SGW"

    def build_head(self, dim: int, seed: int) -> torch.nn.Module:
        """Shuffled group whitening, then dense + tanh or nothing.

        Raises:
            ValueError: `groups` does not divide `dim`.
        """
        generator = heads.seeded(seed)
        whitening = heads.GroupWhitening(
            dim,
            max(dim // 2, 1) if self.groups is None else self.groups,
            generator,
            eps=self.eps,
            stop_gradient=self.stop_gradient,
        )
        if self.head == "none":
            return whitening
        return torch.nn.Sequential(whitening, heads.TanhMLP(dim, generator))

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
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
