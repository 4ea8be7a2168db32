"""SimCSE++'s study of dropout noise: more or less of it, in positives or in negatives."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from isospace.losses.contrastive import diagonal_cross_entropy
from isospace.objectives import heads, paper_heads
from isospace.objectives.base import HeadChoice, Objective, Paper
from isospace.objectives.simcsepp import PAPER
from isospace.operators import similarity
from isospace.system.settings import refuse_idle, settings
from isospace.views import View, Views


@settings
class NoiseStudy(Objective):
    r"""InfoNCE in which one part of the softmax row has more or less noise than the rest.

    $$\ell_i = -\log \frac{e^{p_i}}{e^{p_i} + \sum_{j \ne i} e^{n_{ij}}}, \qquad
      p_i = \cos(z_i, z'_i)/\tau, \quad n_{ij} = \cos(z_i, z'_j)/\tau$$

    and in $p$ ("positives") or in $n$ ("negatives") the views $z, z'$ are replaced by less noisy
    ones, each the mean of K further dropout passes, or by noisier ones, $z + N(0, \sigma^2)$.
    Relations: without the replacement it is `simcse`; `off-dropout` is the cheap limit of less
    noise in negatives. The paper does not say whether means and noise are taken before or after the
    MLP, and there is no code; here after, on the vectors that are compared.
    """

    noise: Literal["less", "more"] = "less"
    """The paper's "-Noise" or "+Noise"."""
    part: Literal["positives", "negatives"] = "negatives"
    """The logits that are changed."""
    passes: PositiveInt = 10
    """K, passes per mean (less noise only)."""
    variance: NonNegativeFloat = 0.1
    """sigma^2 of the Gaussian (more noise only)."""
    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""
    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none."""

    paper: ClassVar[Paper] = PAPER
    term_names: ClassVar[tuple[str, ...]] = ("info_nce",)
    draws_together: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.noise == "less":
            refuse_idle(self, "`noise` more", "variance")
        else:
            refuse_idle(self, "`noise` less", "passes")
            if not self.variance:
                refuse_idle(self, "`variance`", "part")

    @property
    def views(self) -> tuple[View, ...]:
        """The two plain views, then K for the first mean and K for the second."""
        two = (View(), View())
        if self.noise == "more":
            return two
        return (*two, *(View(of_anchor=True),) * self.passes, *(View(),) * self.passes)

    def projected_views(self, batch: int) -> int:
        """Count the noisier copies that the head adds with more noise."""
        return 4 if self.noise == "more" else len(self.views)

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        mlp = ["tanh MLP"] * (self.head == "mlp")
        return " + ".join(mlp + ["Gaussian copies"] * (self.noise == "more")) or "none"

    def build_head(self, dim: int, seed: int) -> torch.nn.Module:
        """Build the tanh MLP or nothing, then Gaussian noise for more noise."""
        generator = heads.seeded(seed)
        head = heads.mlp_or_none(self.head, dim, generator)
        if self.noise == "less":
            return head
        return torch.nn.Sequential(head, paper_heads.GaussianCopies(self.variance, generator))

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """Contrast, with the named part replaced."""
        plain = views.projected[:2]
        changed = [copies.mean(0) for copies in views.projected[2:].chunk(2)]
        for_positives = changed if self.part == "positives" else plain
        for_negatives = plain if self.part == "positives" else changed
        cosines = similarity.with_diagonal(
            similarity.cosine_matrix(*for_negatives), similarity.cosine_pairs(*for_positives)
        )
        logits = cosines / self.temperature
        return {"info_nce": diagonal_cross_entropy(logits).mean()}
