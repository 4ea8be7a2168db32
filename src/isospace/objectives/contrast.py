"""What InfoNCE-like rows share, and what can be laid over each of them.

A row is InfoNCE-like if it gives the logits of one softmax for every sentence. Off-dropout's
negatives, the contrast between dimensions and group whitening know nothing else of it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from isospace.objectives import heads, simcsepp
from isospace.objectives.base import Objective
from isospace.objectives.mlp_head import MLPOrNone
from isospace.operators import similarity
from isospace.system.settings import refuse_idle, settings
from isospace.views import View, Views


def with_clean_negatives(logits: torch.Tensor, clean: torch.Tensor) -> torch.Tensor:
    """Logits whose negatives of the batch are others.

    Args:
        logits: (..., batch, n), n at least the batch; the positives are on the diagonal, columns
            behind the batch are further negatives, and stay.
        clean: (batch, batch), what stands beside the diagonal.
    """
    batch = similarity.with_diagonal(clean, logits.diagonal(dim1=-2, dim2=-1))
    return torch.cat([batch, logits[..., len(clean) :]], dim=-1)


@settings
class Contrast(MLPOrNone, Objective):
    """Base of rows whose core is a softmax over the batch.

    A row says `own_views`, `own_head` (where it has no field `head`) and `logits`, and what it adds
    in `own_terms`. The fields that are off here lay parts of SimCSE++ and WhitenedCSE over it;
    `iso` is one such composition.
    """

    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""
    clean_negatives: bool = False
    """Laid over: the batch's negatives are seen without dropout, by one more pass (off-dropout of
    SimCSE++ with m = 1); positives and a method's further negatives stay."""
    dimension_weight: NonNegativeFloat = 0.0
    """Laid over: weight of a contrast between dimensions of the first two views (DCL of SimCSE++,
    0.1 there); before whitening where there is one, else behind the head."""
    dimension_temperature: PositiveFloat = 5.0
    """tau_D, divides the correlations between dimensions."""
    group_whitening: bool = False
    """Laid over: every view is whitened in shuffled groups before the head (WhitenedCSE)."""
    groups: PositiveInt | None = None
    """Number of groups of the whitening; None takes groups of 2."""

    draws_together: ClassVar[bool] = True
    own_term_names: ClassVar[tuple[str, ...]] = ("info_nce",)
    """The contrast, then what `own_terms` gives."""

    def __post_init__(self) -> None:
        if not self.group_whitening:
            refuse_idle(self, "`group_whitening`", "groups")
        if not self.dimension_weight:
            refuse_idle(self, "`dimension_weight`", "dimension_temperature")

    @property
    def own_views(self) -> tuple[View, ...]:
        """The row's plan, without the clean view laid over it; by itself two under dropout."""
        return (View(), View())

    @abstractmethod
    def logits(self, views: Views) -> torch.Tensor:
        """Cosines over the temperature, (batch, n) or (positive, batch, n), n at least the batch.

        Positives are on the diagonal, columns behind the batch are further negatives. The loss is
        the mean of the cross-entropies.

        Args:
            views: of `own_views`.
        """

    def own_terms(self, views: Views, logits: torch.Tensor) -> dict[str, torch.Tensor]:
        """Weighted terms beside the contrast; by itself none.

        Args:
            views: of `own_views`.
            logits: what `logits` gave for these.
        """
        return {}

    @property
    def own_head_summary(self) -> str:
        """The row's head in a few words; by itself the tanh MLP or none."""
        return super().head_summary

    def own_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        """The row's head, `(view, batch, dim) -> (view', batch, dim')`, view after view."""
        return heads.mlp_or_none(self.head, dim, generator)

    def whitening(self, dim: int, generator: torch.Generator) -> heads.GroupWhitening:
        """Shuffled group whitening as laid over.

        Raises:
            ValueError: `groups` does not divide `dim`.
        """
        return heads.GroupWhitening(dim, heads.group_count(dim, self.groups), generator, eps=1e-5)

    @property
    def views(self) -> tuple[View, ...]:
        """The row's own, and the first of them without dropout where negatives are clean."""
        own = self.own_views
        return (*own, replace(own[0], dropout=0.0)) if self.clean_negatives else own

    @property
    def term_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """What `terms` gives: it depends on what is laid over."""
        own = self.own_term_names
        names = ("off_dropout", *own[1:]) if self.clean_negatives else own
        return (*names, "dimension_contrast") if self.dimension_weight else names

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        own = self.own_head_summary
        if not self.group_whitening:
            return own
        return "SGW" if own == "none" else f"SGW + {own}"

    def build_head(self, dim: int, seed: int) -> torch.nn.Module:
        """The row's own, behind the whitening if there is one."""
        generator = heads.seeded(seed)
        own = self.own_head(dim, generator)
        if not self.group_whitening:
            return own
        whitening = self.whitening(dim, generator)
        if isinstance(own, torch.nn.Identity):
            return whitening
        return torch.nn.Sequential(whitening, own)

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """The contrast, the row's other terms, the contrast between dimensions."""
        own = views
        if self.clean_negatives:
            place = len(self.own_views)
            clean, projected = views.projected[place], [*views.projected]
            del projected[place]
            own = replace(views, encoded=views.encoded[:-1], projected=torch.stack(projected))
        logits = self.logits(own)
        contrasted = logits
        if self.clean_negatives:
            cosines = similarity.cosine_matrix(clean, clean) / self.temperature
            contrasted = with_clean_negatives(logits, cosines)
        contrast = similarity.softmax_losses(contrasted).mean()
        terms = [contrast, *self.own_terms(own, logits).values()]
        if self.dimension_weight:
            between = simcsepp.dimension_contrast(
                *(views.encoded if self.group_whitening else views.projected)[:2],
                temperature=self.dimension_temperature,
                variant="released",
            )
            terms.append(self.dimension_weight * between)
        return dict(zip(self.term_names, terms, strict=True))
