"""Barlow Twins, and SimCSE++'s study of its rank: added to InfoNCE, with artificial rows."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat

from isospace.objectives import heads, simcsepp
from isospace.objectives.base import HeadChoice, Objective, Paper, Widths
from isospace.objectives.mlp_head import MLPOrNone, Projected
from isospace.operators import similarity
from isospace.system.settings import refuse_idle, settings
from isospace.views import Views


def unit_columns(x: torch.Tensor, *, eps: float = 0.0) -> torch.Tensor:
    """Standardised columns of length 1, (batch, dim): `a^T b` of two such arrays is correlation.

    `eps` is added to the variances, as batch norm does.
    """
    return similarity.standardise(x, eps=eps) / math.sqrt(len(x))


def diagonal_terms(correlation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`sum_j (1 - C_jj)^2` and `sum_{j != k} C_jk^2`.

    >>> diagonal_terms(torch.tensor([[0.5, 2.0], [0.0, 1.0]]))
    (tensor(0.2500), tensor(4.))
    """
    dim = len(correlation)
    # Laid out in rows of dim + 1, the diagonal of a square matrix is the first column.
    off_diagonal = correlation.flatten()[:-1].view(dim - 1, dim + 1)[:, 1:]
    return (1 - correlation.diagonal()).square().sum(), off_diagonal.square().sum()


def correlation_terms(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`diagonal_terms(a.T @ b)` of columns of length 1, (batch, dim) each.

    Where the batch is small against the dimension the correlation is never made: its squares sum to
    `||a^T b||^2 = <a a^T, b b^T>`, products of batch by batch.
    """
    if 2 * len(a) > a.shape[1]:
        return diagonal_terms(a.T @ b)
    diagonal = (a * b).sum(0)
    total = ((a @ a.T) * (b @ b.T)).sum()
    return (1 - diagonal).square().sum(), total - diagonal.square().sum()


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
    eps: NonNegativeFloat = 1e-5
    """Added to the variance of every column (batch norm's)."""

    paper: ClassVar[Paper] = Paper(
        """@inproceedings{zbontar-etal-2021-barlow,
    title = {Barlow Twins: Self-Supervised Learning via Redundancy Reduction},
    author = {Zbontar, Jure and Jing, Li and Misra, Ishan and LeCun, Yann and Deny, St{\\'e}phane},
    booktitle = {Proceedings of ICML 2021},
    pages = {12310--12320},
    year = {2021},
    url = {https://arxiv.org/abs/2103.03230},
}""",
    )
    term_names: ClassVar[tuple[str, ...]] = ("on_diagonal", "off_diagonal")
    draws_together: ClassVar[bool] = True

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """Invariance and redundancy reduction."""
        on, off = correlation_terms(*(unit_columns(p, eps=self.eps) for p in views.projected))
        return {"on_diagonal": on, "off_diagonal": self.off_diagonal_weight * off}


@settings
class RankStudy(MLPOrNone, Objective):
    r"""InfoNCE plus Barlow Twins on the same vectors, with R artificial rows that lift the rank.

    $$\ell = \ell_\mathrm{InfoNCE}(z, z') + w \Big( \sum_j (1 - C_{jj})^2
      + \lambda \sum_{j \ne k} C_{jk}^2 \Big)$$

    C: cross-correlation of the views' columns, taken over the N rows of the batch and R fixed rows
    $\sim \mathcal N(0, 1)$, the same in both views. With N far below D the correlation cannot have
    full rank; the rows give it. They also dilute the gradient of the second term; the control is
    `rows_as="dilution"`: no rows, w scaled by N / (N + R). Relations: the sum of `simcse` and
    `barlow-twins` without a projector; `dcl` is the other answer to the same bottleneck.
    Paper and released code differ: the paper's columns are not centred and it names neither w nor
    lambda; a commented-out helper standardises the columns and has 0.1 and 0.012. The default
    follows the code because its constants belong to it.
    """

    rows: NonNegativeInt = 0
    """R, artificial rows: 0, 100, 300 or 704 in the paper."""
    rows_as: Literal["rows", "dilution"] = "rows"
    """Append the rows, or only scale the weight as they would (control)."""
    barlow_weight: NonNegativeFloat = 0.1
    """w, weight of the Barlow Twins term (code)."""
    off_diagonal_weight: NonNegativeFloat = 0.012
    """lambda, weight of its redundancy part (code)."""
    eps: NonNegativeFloat = 1e-5
    """Added to the variance of every column (batch norm's; released variant only)."""
    variant: simcsepp.Variant = "released"
    """Columns standardised (released), or only normalised (paper)."""
    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""
    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none."""

    paper: ClassVar[Paper] = simcsepp.PAPER
    term_names: ClassVar[tuple[str, ...]] = ("info_nce", "on_diagonal", "off_diagonal")
    draws_together: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.barlow_weight:
            of_term = ("rows", "rows_as", "off_diagonal_weight", "eps", "variant")
            refuse_idle(self, "`barlow_weight`", *of_term)
        if not self.rows:
            refuse_idle(self, "`rows`", "rows_as")
        if self.variant != "released":
            refuse_idle(self, "`variant` released", "eps")

    def projected_views(self, batch: int) -> int:
        """The artificial rows travel as further views."""
        return 2 + (-(-self.rows // batch) if self.rows_as == "rows" else 0)

    def build_head(self, dim: int, seed: int) -> torch.nn.Module:
        """The tanh MLP or nothing, then the artificial rows."""
        generator = heads.seeded(seed)
        head = heads.mlp_or_none(self.head, dim, generator)
        if not self.rows or self.rows_as == "dilution":
            return head
        return torch.nn.Sequential(head, heads.ArtificialRows(self.rows, dim, generator))

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """Contrast between sentences, then the Barlow Twins term over batch and artificial rows."""
        z1, z2, *packed = views.projected
        rows = torch.cat([z1[:0], *packed])[: self.rows]
        with_rows = (torch.cat([z1, rows]), torch.cat([z2, rows]))
        if self.variant == "released":
            columns = [unit_columns(z, eps=self.eps) for z in with_rows]
        else:
            columns = [torch.nn.functional.normalize(z, dim=0) for z in with_rows]
        on, off = correlation_terms(*columns)
        diluted = len(z1) / (len(z1) + self.rows) if self.rows_as == "dilution" else 1.0
        weight = self.barlow_weight * diluted
        return {
            "info_nce": similarity.info_nce(z1, z2, self.temperature),
            "on_diagonal": weight * on,
            "off_diagonal": weight * self.off_diagonal_weight * off,
        }
