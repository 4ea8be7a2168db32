"""iso: our own composition of orthogonal ideas of the three papers."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat

from isospace.objectives.base import HeadChoice, MLPOrNone, Paper
from isospace.objectives.contrast import Contrast
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import View, Views


@settings
class Iso(Contrast, MLPOrNone):
    r"""Whitened positives against clean negatives, plus contrast between dimensions.

    Every sentence passes m times under dropout and once without. Each view is whitened in shuffled
    groups. Noisy pairs are contrasted with the clean batch, and the encoder's dimensions with each
    other.

    $$\ell = \frac1{m-1} \sum_{p=1}^{m-1} \ell_\mathrm{off\text{-}dropout}(w_0, w_p, \hat w)
      + \lambda\,\ell_\mathrm{DCL}(h_0, h_1)$$

    $w_v = \mathrm{SGW}_{\pi_v}(h_v)$, $\hat w$ the same of the clean view, $h$ what the encoder
    gives. The dimension term reads the vectors before the whitening, because these are shipped.
    Relations: from `whitenedcse` the shuffled groups and several positives, from `simcse++` clean
    negatives (m of its Eq. 3 is 1, where paper and code agree) and the dimension term in its
    released form.
    """

    num_views: Annotated[int, Field(ge=2)] = 2
    """m, noisy views of a sentence: an anchor and m - 1 positives."""
    temperature: PositiveFloat = 0.15
    """tau, divides the cosines. Chosen on STS-B dev (docs/results/baselines.md): a finished
    sentence encoder has little left to learn at the papers' 0.05."""
    clean_negatives: bool = True
    """Negatives without dropout, by one more pass; without, by the noisy positives."""
    dimension_weight: NonNegativeFloat = 0.1
    """lambda, weight of the contrast between dimensions."""
    group_whitening: bool = True
    """Whiten every view in shuffled groups; without, the dimensions are those behind the head."""
    head: HeadChoice = "none"
    """Nothing after the whitening (best for trained sentence encoders), or the tanh MLP."""

    paper: ClassVar[Paper] = Paper(
        "zhuo-etal-2023-whitenedcse",
        others=("xu-etal-2023-simcse",),
        own_title="Own composition of WhitenedCSE and SimCSE++",
    )

    @property
    def own_views(self) -> tuple[View, ...]:
        return (View(),) * self.num_views

    def logits(self, views: Views) -> torch.Tensor:
        """Compare the anchor with each positive, (positive, batch, batch)."""
        anchor, *positives = views.projected
        cosines = [similarity.cosine_matrix(anchor, positive) for positive in positives]
        return torch.stack(cosines) / self.temperature
