"""SimCSE++'s study of dropout noise: more or less of it, in positives or in negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from isospace.objectives.base import Objective, Paper, View, Views, require, require_not_negative
from isospace.objectives.heads import GaussianCopies, HeadChoice, mlp_or_none, seeded
from isospace.objectives.simcsepp import PAPER
from isospace.operators.similarity import cosine_matrix, cosine_pairs, softmax_losses, with_diagonal


@dataclass(frozen=True)
class NoiseStudy(Objective):
    r"""InfoNCE in which one part of the softmax row has another amount of noise than the rest.

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
    """Which logits are changed."""
    passes: int = 10
    """K, passes per mean (less noise only)."""
    variance: float = 0.1
    """sigma^2 of the Gaussian (more noise only)."""
    temperature: float = 0.05
    """tau, divides the cosines."""
    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none."""

    paper: ClassVar[Paper] = PAPER
    term_names: ClassVar[tuple[str, ...]] = ("info_nce",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.passes >= 1, f"passes must be at least 1; got {self.passes}")
        require_not_negative(self, "variance")
        require(self.temperature > 0, f"temperature must be above 0; got {self.temperature}")

    @property
    def views(self) -> tuple[View, ...]:
        """The two plain views, then K for the first mean and K for the second."""
        return (View(),) * (2 + 2 * self.passes if self.noise == "less" else 2)

    def projected_views(self, batch: int) -> int:
        """With more noise the head adds a noisier copy of both views."""
        return 4 if self.noise == "more" else len(self.views)

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        mlp = ["tanh MLP"] * (self.head == "mlp")
        return " + ".join(mlp + ["Gaussian copies"] * (self.noise == "more")) or "none"

    def build_head(self, dim: int, seed: int) -> nn.Module:
        """The tanh MLP or nothing, then Gaussian noise where there is to be more."""
        generator = seeded(seed)
        head = mlp_or_none(self.head, dim, generator)
        if self.noise == "less":
            return head
        return nn.Sequential(head, GaussianCopies(self.variance, generator))

    def terms(self, views: Views) -> dict[str, Tensor]:
        """InfoNCE with the named part replaced."""
        z1, z2 = views.projected[:2]
        changed1, changed2 = (part.mean(0) for part in views.projected[2:].chunk(2))
        in_positives = self.part == "positives"
        positive = cosine_pairs(*((changed1, changed2) if in_positives else (z1, z2)))
        negatives = cosine_matrix(*((z1, z2) if in_positives else (changed1, changed2)))
        logits = with_diagonal(negatives, positive) / self.temperature
        return {"info_nce": softmax_losses(logits).mean()}
