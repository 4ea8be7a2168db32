"""ArcCSE: an angle as margin between positive and negatives, and an order of three sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

import torch
from pydantic import Field, NonNegativeFloat

from isospace.errors import UserError
from isospace.losses.contrastive import angular_margin, masking_triplet
from isospace.objectives.base import OnCosines, Paper
from isospace.objectives.contrast import Contrast, Term
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import View, Views
from isospace.views.edits import MaskSpan

Share = Annotated[float, Field(gt=0, lt=1)]


@settings
class ArcCSE(Contrast, OnCosines):
    r"""InfoNCE with an angle as margin on the positive (ArcCon), and a triplet of masked sentences.

    $$\ell_i = -\log \frac{e^{\cos(\theta_{ii} + u)/\tau}}
        {e^{\cos(\theta_{ii} + u)/\tau} + \sum_{j \ne i} e^{\cos \theta_{ij}/\tau}}
      + \lambda \max\big(0,\ m + \cos(h_i, h''_i) - \cos(h_i, h'_i)\big), \qquad
      \theta_{ij} = \angle(z_i, z'_j)$$

    $z, z'$: two views under dropout, behind the head. $h$: the sentence, $h'$: with a span of a
    fifth of its tokens masked, $h''$: with a span of two fifths that holds the first; all three
    without dropout, m `triplet_margin`. Relations: u = 0 and lambda = 0 is `simcse`. There is no
    released code. Others report the triplet's spans, lambda, margin 0 and that dropout is off; the
    rest are readings:

    - The triplet reads the encoder's vectors, before the head, because these are shipped. It
      compares a sentence with its own masked views; a re-implementation also with those of others.
    - Spans are rounded up to whole tokens, and each place is equally likely. In a sentence of one
      or two tokens both spans are one token, and the triplet asks nothing.
    - $\cos(\theta + u)$ grows again beyond $\pi - u$. It stays as printed: dropout leads nowhere
      near.
    - The paper's index order allows three readings of the negatives. Here they are $\theta_{ij}$,
      as in InfoNCE, not $\theta_{ji}$ or the angles between $z_i$ and $z_j$.

    Over pairs of texts the triplet is the anchor's.
    """

    margin: Annotated[NonNegativeFloat, Field(lt=math.pi / 2)] = math.pi / 18
    """u, the margin in radians; the paper's is 10 degrees."""
    triplet_weight: NonNegativeFloat = 0.1
    """lambda, of the triplet; 0 leaves it out, and its three passes."""
    less: Share = 0.2
    """Share of the tokens in the shorter masked span."""
    more: Share = 0.4
    """Share of the tokens in the longer masked span, which holds the shorter."""
    triplet_margin: NonNegativeFloat = 0.0
    """m, the margin between the two cosines."""

    paper: ClassVar[Paper] = Paper("zhang-etal-2022-contrastive")
    contrast_name: ClassVar[str] = "arc_con"
    without_mask: ClassVar[str] = "`triplet_weight` 0"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.less >= self.more:
            raise UserError(f"`less` {self.less}: must be below `more` {self.more}")

    @property
    def own_views(self) -> tuple[View, ...]:
        """Two views under dropout; then the triplet's: whole, with a short and with a long span."""
        if not self.triplet_weight:
            return super().own_views
        edits = (None, *(MaskSpan("spans", share) for share in (self.less, self.more)))
        masked = (View(dropout=0.0, edit=edit, of_anchor=True) for edit in edits)
        return (View(), View(), *masked)

    @property
    def further(self) -> Mapping[str, Term]:
        return {"triplet": self.triplet} if self.triplet_weight else {}

    def logits(self, views: Views) -> torch.Tensor:
        z1, z2 = views.projected[:2]
        cosines = similarity.cosine_matrix(z1, z2)
        with_margin = similarity.with_diagonal(cosines, angular_margin(z1, z2, self.margin))
        return with_margin / self.temperature

    def triplet(self, views: Views, logits: torch.Tensor) -> torch.Tensor:
        x, less, more = views.encoded[2:]
        return self.triplet_weight * masking_triplet(x, less, more, self.triplet_margin)
