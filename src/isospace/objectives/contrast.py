"""Objectives whose core is a softmax over the batch, with options of SimCSE++ and WhitenedCSE."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, TypeAlias

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from isospace.losses.contrastive import diagonal_cross_entropy, with_clean_negatives
from isospace.losses.correlation import dimension_contrast
from isospace.objectives import heads
from isospace.objectives.base import Objective
from isospace.operators import similarity
from isospace.system.settings import refuse_idle, settings
from isospace.views import View, Views

Term: TypeAlias = "Callable[[Views, torch.Tensor], torch.Tensor]"
"""Maps own views and their logits to a weighted scalar. As text it does not load torch."""


@settings
class Contrast(Objective):
    """Base of objectives whose core is a softmax over the batch.

    A subclass declares its `logits`, and what is unusual of `own_views`, `own_head` and `further`.
    """

    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""
    clean_negatives: bool = False
    """Overlay: see the batch's negatives without dropout, by one more pass (off-dropout of SimCSE++
    with m = 1). Positives and further negatives stay."""
    dimension_weight: NonNegativeFloat = 0.0
    """Overlay: weight of a contrast between dimensions of the first two views (DCL of SimCSE++, 0.1
    there). It reads them before the whitening if there is one, else after the head."""
    dimension_temperature: PositiveFloat = 5.0
    """tau_D, divides the correlations between dimensions."""
    group_whitening: bool = False
    """Overlay: whiten every view in shuffled groups before the head (WhitenedCSE)."""
    groups: PositiveInt | None = None
    """Number of groups of the whitening; None takes groups of 2."""

    contrast_name: ClassVar[str] = "info_nce"
    """Name of the contrast among the terms."""

    def __post_init__(self) -> None:
        if not self.group_whitening:
            refuse_idle(self, "`group_whitening`", "groups")

    @property
    def own_views(self) -> tuple[View, ...]:
        """The passes without the clean one; by default two under dropout."""
        return (View(), View())

    def own_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        """Make the head without the whitening: that of the base class after `Contrast`, or none.

        `OnCosines` before `Contrast` would leave the whitening out.
        """
        return super().make_head(dim, generator)

    @abstractmethod
    def logits(self, views: Views) -> torch.Tensor:
        """Return cosines over the temperature, ([positive,] batch, n), positives on the diagonal.

        Columns after the batch are further negatives.
        """

    @property
    def further(self) -> Mapping[str, Term]:
        """Terms beside the contrast, by name; by default none."""
        return {}

    @property
    def views(self) -> tuple[View, ...]:
        own = self.own_views
        return (*own, replace(own[0], dropout=0.0)) if self.clean_negatives else own

    def make_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        own = self.own_head(dim, generator)
        if not self.group_whitening:
            return own
        return torch.nn.Sequential(heads.GroupWhitening(dim, self.groups, generator), own)

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        own, count = views, len(self.own_views)
        if self.clean_negatives:
            projected = torch.cat([views.projected[:count], views.projected[count + 1 :]])
            own = replace(views, encoded=views.encoded[:count], projected=projected)
        logits = self.logits(own)
        name = self.contrast_name
        terms = {of: term(own, logits) for of, term in self.further.items()}
        if self.clean_negatives:
            name, clean = "off_dropout", views.projected[count]
            negatives = similarity.cosine_matrix(clean, clean) / self.temperature
            logits = with_clean_negatives(logits, negatives)
        if self.dimension_weight:
            first, second = (views.encoded if self.group_whitening else views.projected)[:2]
            between = dimension_contrast(first, second, temperature=self.dimension_temperature)
            terms["dimension_contrast"] = self.dimension_weight * between
        return {name: diagonal_cross_entropy(logits).mean(), **terms}
