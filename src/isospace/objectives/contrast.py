"""Objectives whose core is a softmax over the batch, and overlays that wrap their plan.

An overlay is a function from a `Plan` to a `Plan`: negatives without dropout, a contrast between
dimensions, group whitening before the head. It reads no more of an objective than its plan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

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
"""Maps views and the logits of a plan to a weighted scalar. As text it does not load torch."""


@dataclass(frozen=True)
class Plan:
    """The declaration of a contrastive objective, which overlays extend."""

    views: tuple[View, ...]
    head: heads.Head
    logits: Callable[[Views], torch.Tensor]
    """Maps views to cosines over the temperature, (batch, n) or (positive, batch, n), n at least
    the batch. Positives are on the diagonal, columns after the batch are further negatives."""
    contrasted: Callable[[Views, torch.Tensor], torch.Tensor] = lambda views, logits: logits
    """Changes these logits before their cross-entropy."""
    name: str = "info_nce"
    """Name of the contrast among the terms."""
    further: Mapping[str, Term] = field(default_factory=dict)
    """Terms beside the contrast, by name."""

    def loss(self, views: Views) -> dict[str, torch.Tensor]:
        """Return the contrast, the mean of the cross-entropies, and the further terms."""
        logits = self.logits(views)
        contrast = diagonal_cross_entropy(self.contrasted(views, logits)).mean()
        further = {name: term(views, logits) for name, term in self.further.items()}
        return {self.name: contrast, **further}


def with_clean_view(plan: Plan, temperature: float) -> Plan:
    """See the batch's negatives without dropout, by a further pass (SimCSE++ with m = 1)."""
    place = len(plan.views)

    def inner(views: Views) -> Views:
        projected = torch.cat([views.projected[:place], views.projected[place + 1 :]])
        return replace(views, encoded=views.encoded[:-1], projected=projected)

    def of_inner(term: Term) -> Term:
        return lambda views, logits: term(inner(views), logits)

    def contrasted(views: Views, logits: torch.Tensor) -> torch.Tensor:
        clean = views.projected[place]
        return with_clean_negatives(logits, similarity.cosine_matrix(clean, clean) / temperature)

    return replace(
        plan,
        views=(*plan.views, replace(plan.views[0], dropout=0.0)),
        logits=lambda views: plan.logits(inner(views)),
        contrasted=contrasted,
        name="off_dropout",
        further={name: of_inner(term) for name, term in plan.further.items()},
    )


def with_dimension_contrast(
    plan: Plan, weight: float, temperature: float, *, before_head: bool
) -> Plan:
    """Add a contrast between the dimensions of the first two views (SimCSE++)."""

    def term(views: Views, logits: torch.Tensor) -> torch.Tensor:
        first, second = (views.encoded if before_head else views.projected)[:2]
        return weight * dimension_contrast(first, second, temperature=temperature)

    return replace(plan, further={**plan.further, "dimension_contrast": term})


def with_group_whitening(plan: Plan, groups: int | None) -> Plan:
    """Whiten every view in shuffled groups before the head (WhitenedCSE)."""

    def whitening(dim: int, generator: torch.Generator) -> torch.nn.Module:
        return heads.GroupWhitening(dim, groups, generator)

    return replace(plan, head=heads.in_turn(whitening, plan.head))


@settings
class Contrast(Objective):
    """Base of objectives whose core is a softmax over the batch.

    A subclass declares its `plan`. Overlays wrap the plan where their fields say so; `iso` is one
    such composition.
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

    def __post_init__(self) -> None:
        if not self.group_whitening:
            refuse_idle(self, "`group_whitening`", "groups")

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """The objective's own plan, without overlays."""

    @property
    def composed(self) -> Plan:
        """The plan with the overlays that the fields ask for."""
        plan = self.plan
        if self.clean_negatives:
            plan = with_clean_view(plan, self.temperature)
        if self.dimension_weight:
            plan = with_dimension_contrast(
                plan,
                self.dimension_weight,
                self.dimension_temperature,
                before_head=self.group_whitening,
            )
        return with_group_whitening(plan, self.groups) if self.group_whitening else plan

    @property
    def views(self) -> tuple[View, ...]:
        return self.composed.views

    @property
    def term_names(self) -> tuple[str, ...]:  # type: ignore[override]
        plan = self.composed
        return (plan.name, *plan.further)

    @property
    def training_head(self) -> heads.Head:
        return self.composed.head

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        return self.composed.loss(views)
