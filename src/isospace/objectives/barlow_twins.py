"""Barlow Twins, and SimCSE++'s study of its rank with artificial rows."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat

from isospace.losses.contrastive import info_nce
from isospace.losses.correlation import barlow_twins, correlation_terms
from isospace.objectives import heads
from isospace.objectives.base import MLPOrNone, Objective, Paper, Projected, Widths
from isospace.system.settings import settings
from isospace.views import Views


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
    term_names: ClassVar[tuple[str, ...]] = ("on_diagonal", "off_diagonal")

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        on, off = barlow_twins(*views.projected)
        return {"on_diagonal": on, "off_diagonal": self.off_diagonal_weight * off}


@settings
class RankStudy(MLPOrNone):
    r"""InfoNCE plus Barlow Twins on the same vectors, with R artificial rows that lift the rank.

    $$\ell = \ell_\mathrm{InfoNCE}(z, z') + w \Big( \sum_j (1 - C_{jj})^2
      + \lambda \sum_{j \ne k} C_{jk}^2 \Big)$$

    C: cross-correlation of the views' columns, taken over the N rows of the batch and R fixed rows
    $\sim \mathcal N(0, 1)$, the same in both views. With N far below D the correlation cannot have
    full rank; the rows give it. They also dilute the gradient of the second term; the control is
    no rows and w scaled by N / (N + R). Relations: the sum of `simcse` and `barlow-twins` without a
    projector; `dcl` is the other answer to the same bottleneck.
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
    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""

    paper: ClassVar[Paper] = Paper("xu-etal-2023-simcse")
    term_names: ClassVar[tuple[str, ...]] = ("info_nce", "on_diagonal", "off_diagonal")

    @property
    def training_head(self) -> heads.Head:
        """The tanh MLP or nothing, then the artificial rows, which travel as views."""
        head = heads.mlp_or_none(self.head)
        if not self.rows:
            return head
        return heads.in_turn(
            head, lambda dim, generator: heads.GaussianRows(self.rows, dim, generator, fixed=True)
        )

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        z1, z2, *packed = views.projected
        rows = torch.cat([z1[:0], *packed])[: self.rows]
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
