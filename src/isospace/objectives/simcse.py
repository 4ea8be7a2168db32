"""SimCSE: two dropout views of every sentence; iso: with the ideas of its successors over it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat

from isospace.errors import UserError
from isospace.objectives.base import HeadChoice, OnCosines, Paper
from isospace.objectives.contrast import Contrast
from isospace.operators import similarity
from isospace.system.settings import refuse_idle, settings
from isospace.views import View, Views


@settings
class SimCSE(Contrast, OnCosines):
    r"""InfoNCE between two views of every sentence.

    $$\ell_i = -\log \frac{e^{\cos(z_i, z'_i)/\tau}}
        {\sum_j e^{\cos(z_i, z'_j)/\tau} + \sum_j e^{\cos(z_i, z^-_j)/\tau + w [j=i]}}$$

    $z, z'$: the two views after the head; with triples the anchor and its paired positive.
    $z^-$: hard negatives, with triples only. The loss is the mean over the batch, in one direction.
    Relations: `whitenedcse` with one positive and no whitening is this; `off-dropout` replaces the
    negatives, `dcl` adds a term. Paper and code agree, but for the evaluation interval (250 and 125
    steps); the supervised models keep the head at inference, which is not done here.
    """

    temperature: PositiveFloat = 0.05
    """tau, divides the cosines (Appendix A)."""
    supervision: Literal["none", "triples"] = "none"
    """triples: an example has a positive and a hard negative (Section 4), in three `columns`. Pairs
    need no setting here: `views` pairs takes them."""
    hard_negative_weight: float = 0.0
    """w, added to the logit of the own hard negative; log alpha of Section 4, alpha = 1."""

    paper: ClassVar[Paper] = Paper("gao-etal-2021-simcse")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.supervision != "triples":
            refuse_idle(self, "`supervision` triples", "hard_negative_weight")
        if self.clean_negatives and self.supervision == "triples":
            raise UserError(
                "`clean_negatives` with `supervision` triples: needs pairs that `views` draws. "
                "Leave `supervision` out, and set `views` pairs"
            )

    @property
    def own_views(self) -> tuple[View, ...]:
        triples = View(), View(text=1), View(text=2)
        return triples if self.supervision == "triples" else super().own_views

    def logits(self, views: Views) -> torch.Tensor:
        anchor, *others = views.projected
        logits = [similarity.cosine_matrix(anchor, other) / self.temperature for other in others]
        if self.supervision == "triples":
            logits[1] = logits[1] + self.hard_negative_weight * torch.eye(len(anchor)).to(anchor)
        return torch.cat(logits, dim=1)


@settings
class Iso(Contrast, OnCosines):
    r"""Whitened positives against clean negatives, plus contrast between dimensions.

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
