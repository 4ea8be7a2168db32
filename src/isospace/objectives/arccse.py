"""ArcCSE: an angle as margin between the positive and the negatives."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, NonNegativeFloat

from isospace.objectives.base import HeadChoice, Paper, Views
from isospace.objectives.contrast import Contrast
from isospace.operators import similarity
from isospace.system.settings import settings

FarAngles = Literal["paper", "easy", "cut", "penalty"]
Negatives = Literal["other-view", "transposed", "same-view"]


def with_margin(
    a: torch.Tensor, b: torch.Tensor, margin: float, far: FarAngles = "paper"
) -> torch.Tensor:
    """`cos(theta + margin)` of the angles theta between the rows of (batch, dim) each: (batch,).

    `far` says what becomes of angles at which the margin makes no sense; see `ArcCSE`.
    """
    a, b = torch.nn.functional.normalize(a, dim=-1), torch.nn.functional.normalize(b, dim=-1)
    cosine = (a * b).sum(dim=-1)
    # As sqrt(1 - cos^2) the sine of a small angle has no digits and an infinite slope.
    difference, total = (torch.linalg.vector_norm(x, dim=-1) for x in (a - b, a + b))
    sine = difference * total / 2
    further: torch.Tensor = cosine * math.cos(margin) - sine * math.sin(margin)
    if far == "paper":
        return further
    if far == "easy":
        return torch.where(cosine > 0, further, cosine)
    penalty = margin * math.sin(margin) if far == "penalty" else 0.0
    return torch.where(cosine > -math.cos(margin), further, cosine - penalty)


def triplet(
    x: torch.Tensor, less: torch.Tensor, more: torch.Tensor, margin: float = 0.0
) -> torch.Tensor:
    """Mean over i of `max(0, margin + cos(x_i, more_i) - cos(x_i, less_i))`, a scalar.

    `less` and `more`, (batch, dim) like `x`: the sentence without a short span, and without a
    longer one that holds it.
    """
    gaps = similarity.cosine_pairs(x, more) - similarity.cosine_pairs(x, less)
    return (margin + gaps).relu().mean()


@settings
class ArcCSE(Contrast):
    r"""InfoNCE with an additive angular margin on the positive (ArcCon).

    $$\ell_i = -\log \frac{e^{\cos(\theta_{ii} + u)/\tau}}
        {e^{\cos(\theta_{ii} + u)/\tau} + \sum_{j \ne i} e^{\cos \theta_{ij}/\tau}}, \qquad
      \theta_{ij} = \angle(z_i, z'_j)$$

    Relations: u = 0 is `simcse`. The paper adds a triplet term, `triplet`, over sentences with
    masked spans; this class has the first alone. There is no released code.

    - The paper's $\cos(\theta + u)$ grows again beyond $\pi - u$, where the margin helps a positive
      that is as far as can be. The default is the paper's, as dropout leads nowhere near; `far`
      has the usual remedies: the margin only at angles below 90 degrees ("easy"), only below
      $\pi - u$ ("cut"), and beyond it $\cos\theta - u \sin u$ ("penalty").
    - The paper's index order allows three readings of the negatives: $\theta_{ij}$ ("other-view",
      the default, as in InfoNCE), $\theta_{ji}$ ("transposed"), and angles between $z_i$ and $z_j$
      ("same-view").
    """

    margin: Annotated[NonNegativeFloat, Field(lt=math.pi / 2)] = math.pi / 18
    """u, the margin in radians; the paper's is 10 degrees."""
    far: FarAngles = "paper"
    """What becomes of the margin at angles near 180 degrees."""
    negatives: Negatives = "other-view"
    """Which cosines are the negatives of an anchor; `clean_negatives` has its own."""
    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none."""

    paper: ClassVar[Paper] = Paper(
        title="A Contrastive Framework for Learning Sentence Representations from Pairwise and "
        "Triple-wise Perspective in Angular Space",
        year=2022,
        url="https://aclanthology.org/2022.acl-long.336",
        bibtex="""@inproceedings{zhang-etal-2022-contrastive,
    title = {A Contrastive Framework for Learning Sentence Representations from Pairwise and
             Triple-wise Perspective in Angular Space},
    author = {Zhang, Yuhao and Zhu, Hongji and Wang, Yongliang and Xu, Nan and Li, Xiaobo and
              Zhao, Binqiang},
    booktitle = {Proceedings of ACL 2022},
    pages = {4892--4903},
    year = {2022},
    url = {https://aclanthology.org/2022.acl-long.336},
}""",
    )
    own_term_names: ClassVar[tuple[str, ...]] = ("arc_con",)

    def logits(self, views: Views) -> torch.Tensor:
        """Over the batch, its positives with the margin."""
        z1, z2 = views.projected
        cosines = similarity.cosine_matrix(z1, z1 if self.negatives == "same-view" else z2)
        if self.negatives == "transposed":
            cosines = cosines.T
        positives = with_margin(z1, z2, self.margin, self.far)
        return similarity.with_diagonal(cosines, positives) / self.temperature
