"""RankCSE: the student's ranking of a list follows a teacher's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import NonNegativeFloat, PositiveFloat

from isospace.errors import UserError
from isospace.losses.ranking import list_mle, list_net, margin_mse, ranking_divergence
from isospace.objectives.base import OnCosines, Paper
from isospace.objectives.contrast import Contrast, Term
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import Views

_DISTILLATIONS = {"listnet": list_net, "listmle": list_mle, "margin-mse": margin_mse}


@settings
class RankCSE(Contrast, OnCosines):
    r"""InfoNCE, agreement of two views' rankings, and a teacher's ranking of every list.

    $$\ell = w\,\ell_\mathrm{InfoNCE} + \beta \frac1N \sum_i
        \mathrm{JS}\big(\sigma(S_i / \tau) \,\|\, \sigma(S'_i / \tau)\big)
        + \gamma\,\ell_\mathrm{rank}(S / \tau_2,\ T / \tau_3)$$

    $S_{ij} = \cos(z_i, z'_j)$, $S' = S^\top$; $T_{ij}$: the teacher's score of text j for text i,
    constant; $\sigma$: softmax; $\ell_\mathrm{rank}$: `list_net`, `list_mle` or `margin_mse` of
    `isospace.losses`, where their formulas are. A list is the batch, and behind it the
    candidates that were mined for the text, which are negatives of its InfoNCE too. A text that the
    teacher does not score is not in the list. Relations: $\beta = \gamma = 0$ is `simcse`; w =
    $\beta$ = 0 is the student alone; `margin-mse` is the loss of GPL, over all others and not one.

    Where paper and code differ. RankCSE's authors have released none; a community's code:
    - leaves a text's own place out of ListNet's lists (`own_text` out), not out of ListMLE's;
    - has $\tau_3 = \tau_2$ in place of half of it, and the student's $\tau$ in place of $\tau_2$;
    - has the negative entropy of both lists as consistency term; here it is the divergence.
    GPL compares inner products, with a cross-encoder's logits, without temperatures: here cosines
    are divided by $\tau_2$, and $\tau_3$ is the unit of the teacher's scores.
    """

    contrast_weight: NonNegativeFloat = 1.0
    """w, weight of InfoNCE; 0 leaves it out."""
    consistency_weight: NonNegativeFloat = 1.0
    """beta, weight of the agreement of the two views' rankings; 0 leaves it out."""
    distillation_weight: NonNegativeFloat = 1.0
    """gamma, weight of the teacher's ranking; 0 needs no `teacher`."""
    variant: Literal["listnet", "listmle", "margin-mse"] = "listnet"
    """What follows the teacher: the distribution over a list (listnet), the order of a list
    (listmle), or the margins between a text's own and others (margin-mse, GPL's)."""
    rank_temperature: PositiveFloat = 0.05
    """tau_2, divides the student's cosines."""
    teacher_temperature: PositiveFloat | None = None
    """tau_3, divides the teacher's scores. Default: half of `rank_temperature`; with margin-mse the
    same."""
    own_text: Literal["in", "out"] = "in"
    """A text's own positive is in its list, or left out. With `views` dropout every teacher ranks
    the text itself first, so the encoder learns little else."""

    paper: ClassVar[Paper] = Paper("liu-etal-2023-rankcse", others=("wang-etal-2022-gpl",))
    takes_candidates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.own_text == "out" and self.variant == "margin-mse":
            raise UserError("`own_text` out: needs `variant` listnet or listmle")

    @property
    def reads_teacher(self) -> bool:
        return self.distillation_weight > 0

    @property
    def further(self) -> Mapping[str, Term]:
        further: dict[str, Term] = {}
        if self.consistency_weight:
            further["consistency"] = self.consistency
        if self.distillation_weight:
            further["distillation"] = self.distillation
        return further

    def logits(self, views: Views) -> torch.Tensor:
        """Compare anchors with the batch and their own candidates, (batch, batch + candidates)."""
        first, second = views.projected
        columns = [similarity.cosine_matrix(first, second)]
        if views.candidates is not None:
            columns += [
                similarity.cosine_pairs(first, own).unsqueeze(1) for own in views.candidates
            ]
        return torch.cat(columns, dim=1) / self.temperature

    def consistency(self, views: Views, logits: torch.Tensor) -> torch.Tensor:
        batch = logits[:, : len(logits)]
        return self.consistency_weight * ranking_divergence(batch, batch.T).mean()

    def distillation(self, views: Views, logits: torch.Tensor) -> torch.Tensor:
        assert views.teacher is not None  # `reads_teacher` asks for it
        temperature = self.teacher_temperature
        if temperature is None:
            of_margins = self.variant == "margin-mse"
            temperature = self.rank_temperature * (1.0 if of_margins else 0.5)
        wanted = views.teacher.to(logits) / temperature
        if self.own_text == "out":
            own = torch.eye(*wanted.shape, dtype=torch.bool, device=wanted.device)
            wanted = wanted.masked_fill(own, torch.nan)
        student = logits * (self.temperature / self.rank_temperature)
        return self.distillation_weight * _DISTILLATIONS[self.variant](student, wanted)

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        terms = super().terms(views)
        contrast = next(iter(terms))
        return {**terms, contrast: self.contrast_weight * terms[contrast]}
