"""SimCSE: the same sentence twice through the encoder, dropout as the only augmentation."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import PositiveFloat

from isospace.errors import UserError
from isospace.objectives.base import MLPOrNone, Paper
from isospace.objectives.contrast import Contrast
from isospace.operators import similarity
from isospace.system.settings import refuse_idle, settings
from isospace.views import View, Views


@settings
class SimCSE(Contrast, MLPOrNone):
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
    """triples: an example has a positive and a hard negative too (Section 4), in the three
    `columns`. Pairs need no setting here: `views` pairs takes them."""
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
