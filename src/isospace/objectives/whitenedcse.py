"""WhitenedCSE: shuffled group whitening before the head, and several positives per sentence."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from isospace.errors import UserError
from isospace.losses.contrastive import multi_positive
from isospace.objectives import heads
from isospace.objectives.base import HeadChoice, OnCosines, Paper
from isospace.system.settings import refuse_idle, settings
from isospace.views import View, Views


@settings
class WhitenedCSE(OnCosines):
    r"""Multi-positive InfoNCE on group-whitened views.

    $$z_v = \tanh(W\,\mathrm{SGW}_{\pi_v}(h_v) + b), \qquad
      q_{ip} = \frac{e^{s_{ip}}}{D_{ip}}, \quad s_{ip} = \cos(z_{0i}, z_{pi})/\tau, \quad
      D_{ip} = \sum_j e^{\cos(z_{0i}, z_{pj})/\tau}$$
    $$L_1 = -\lambda \sum_p \log q_{ip} \;(\text{Eq. 7}), \qquad
      L_2 = \log \sum_p \lambda / q_{ip} \;(\text{Eq. 8, interpreted})$$

    $\mathrm{SGW}_\pi$: deal the columns to groups by the permutation $\pi$, ZCA-whiten each group
    by batch statistics, undo $\pi$. View 0 is the anchor, $p = 1 .. m-1$ its positives; the loss is
    the mean over i. Relations: m = 2 without whitening is `simcse`.

    Where paper and released code differ:
    - Eq. 8 as printed, $-\log \sum_p \lambda e^{-s_p} / D_p$ ("l2-printed"), pushes positives away.
      "l2-plus" flips the sign, which is the hard mining that the text rejects. "l2" gives the least
      similar positive the largest gradient, as the text intends. The code has $L_1$, the default.
    - Paper: one permutation and one set of statistics per view. Code: one for all views of 1/m of
      the sentences. `variant="paper"` is the default because only it makes positives differ by
      their shuffle.
    - Paper: positives are shuffles of one feature; code: separate dropout passes, the default.
    - Paper: 384 groups; code: 128. The code stops the gradient at the whitening matrix, so does
      this class. The code has no eps and gives NaN on singular groups.
    """

    num_views: Annotated[int, Field(ge=2)] = 3
    """m, views of each sentence, the anchor included: 2 to 5 in the paper's ablation."""
    positives: Literal["dropout", "permutation"] = "dropout"
    """The source of positives: m dropout passes (code), or m shuffles of one pass (paper)."""
    whitening: Literal["none", "pca", "zca", "group", "shuffled-group"] = "shuffled-group"
    """The whitening before the head; pca and zca whiten all dimensions as one group."""
    groups: PositiveInt | None = None
    """k, number of groups; None takes groups of 2: the paper's 384 at BERT-base's 768."""
    variant: Literal["paper", "released"] = "paper"
    """The rows of one permutation and one set of statistics: a view (paper), or 1/m of the
    sentences with all their views (released)."""
    loss: Literal["l1", "l2", "l2-printed", "l2-plus"] = "l1"
    """Eq. 7 (l1); Eq. 8 interpreted (l2), as printed, or with its sign flipped."""
    positive_weight: PositiveFloat = 1.0
    """lambda of Eq. 7 and 8; the paper gives no value, the code has 1. Of `loss` l1 it scales the
    gradient, to the others it adds a constant."""
    eps: NonNegativeFloat = 1e-5
    """Added to every variance; the released code has none. With `stop_gradient`, directions
    in which a batch does not vary (of few rows or one group) get gradients times eps^(-1/2)."""
    stop_gradient: bool = True
    """Treat the whitening matrix as a constant (released code)."""
    head: HeadChoice = "mlp"
    """Dense + tanh after the whitening, or whitening alone."""

    paper: ClassVar[Paper] = Paper("zhuo-etal-2023-whitenedcse")

    def __post_init__(self) -> None:
        if self.whitening not in ("group", "shuffled-group"):
            refuse_idle(self, "`whitening` group or shuffled-group", "groups")
        if self.whitening == "none":
            refuse_idle(self, "a `whitening`", "eps", "stop_gradient", "variant")
        shuffles_views = self.whitening == "shuffled-group" and self.variant == "paper"
        if self.positives == "permutation" and not shuffles_views:
            raise UserError(
                "`positives` permutation: only `whitening` shuffled-group with `variant` paper "
                "gives each view of a sentence its own permutation. Set both"
            )

    @property
    def views(self) -> tuple[View, ...]:
        return (View(),) * (self.num_views if self.positives == "dropout" else 1)

    def make_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        """Make the whitening, then dense + tanh, with m views whatever the number of passes."""
        own = super().make_head(dim, generator)
        if self.whitening == "none":
            return own
        groups = self.groups if self.whitening in ("group", "shuffled-group") else 1
        if self.positives == "permutation" and groups in (1, dim):
            raise ValueError(
                f"`groups` {groups}: every permutation gives the same result. Give more than 1 and "
                f"less than {dim}, the width of the vectors"
            )
        whitening = heads.GroupWhitening(
            dim,
            groups,
            generator,
            shuffle=self.whitening == "shuffled-group",
            copies=self.num_views // len(self.views),
            layout="view" if self.variant == "paper" else "sentence",
            method="pca" if self.whitening == "pca" else "zca",
            eps=self.eps,
            stop_gradient=self.stop_gradient,
        )
        return torch.nn.Sequential(whitening, own)

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        loss = multi_positive(
            views.projected, self.temperature, form=self.loss, weight=self.positive_weight
        )
        return {"multi_positive": loss}
