"""MixCSE: hard negatives mixed from the positive and another sentence of the batch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field

from isospace.objectives.base import HeadChoice, Paper
from isospace.objectives.contrast import Contrast
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import Views


def mix(z: torch.Tensor, weight: float) -> torch.Tensor:
    """`weight z_i + (1 - weight) z_(i+1)` of the rows of (batch, dim), the last with the first."""
    return weight * z + (1 - weight) * z.roll(-1, dims=0)


def replaced(matrix: torch.Tensor, shift: int, value: float) -> torch.Tensor:
    """The square `matrix` with `value` in every cell (i, i + shift), round the end.

    >>> replaced(torch.ones(3, 3), 1, 0.0)
    tensor([[1., 0., 1.],
            [1., 1., 0.],
            [0., 1., 1.]])
    """
    cells = torch.eye(len(matrix), dtype=torch.bool, device=matrix.device).roll(shift, dims=1)
    return matrix.masked_fill(cells, value)


@settings
class MixCSE(Contrast):
    r"""InfoNCE with negatives that are mixed from the positive and another sentence.

    $$\ell_i = -\log \frac{e^{s(z_i, z'_i)}}{\sum_j e^{s(z_i, z'_j)} + \sum_{j \ne i-1}
      e^{s(z_i, m'_j)} + \sum_{j \ne i+1} e^{s(m_i, z'_j)}}, \qquad
      m_j = \mathrm{sg}(\lambda z_j + (1 - \lambda) z_{j+1})$$

    $s = \cos/\tau$; $m'$: the same of the second view; sg: a constant; the row after the last is
    the first. Excluded is a mix that is mostly the sentence it would be a negative of. Relations:
    without the mixes it is `simcse`; `gs-infonce` adds noise as negatives instead.

    Where paper and released code differ:
    - Code: all N mixes of either view count for every anchor. Paper (`variant="paper"`): vectors of
      length 1 are mixed, and an anchor has one mix, that of its own positive. The default follows
      the code, with which the published numbers were made, but for one mistake:
    - the code multiplies the logits of the excluded cells by 0 (`variant="released"`), which leaves
      them as negatives of cosine 0. The default excludes them; the loss hardly differs.
    - The paper's partner is a random sentence of the batch. The code's is the next row, which in a
      shuffled batch is the same; so it is here.
    """

    mix_weight: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """lambda, share of the positive in a mix."""
    variant: Literal["masked", "released", "paper"] = "masked"
    """Excluded cells excluded (masked) or at logit 0 (released); or one mix per anchor (paper)."""
    stop_gradient: bool = True
    """Treat the mixes as constants (paper and code)."""
    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none."""

    paper: ClassVar[Paper] = Paper(
        """@inproceedings{zhang-etal-2022-mixing,
    title = {Unsupervised Sentence Representation via Contrastive Learning with Mixing Negatives},
    author = {Zhang, Yanzhao and Zhang, Richong and Mensah, Samuel and Liu, Xudong and Mao, Yongyi},
    booktitle = {Proceedings of AAAI 2022},
    pages = {11730--11738},
    year = {2022},
    url = {https://doi.org/10.1609/aaai.v36i10.21428},
}""",
    )

    def logits(self, views: Views) -> torch.Tensor:
        """Over the batch and the mixes."""
        z1, z2 = views.projected
        cosines = [similarity.cosine_matrix(z1, z2), *self._mixed(z1, z2)]
        return torch.cat(cosines, dim=1) / self.temperature

    def _mixed(self, z1: torch.Tensor, z2: torch.Tensor) -> list[torch.Tensor]:
        """The cosines of the further columns, (batch, 1) or (batch, batch) each."""
        constant = [z.detach() if self.stop_gradient else z for z in (z1, z2)]
        if self.variant == "paper":
            own = mix(torch.nn.functional.normalize(constant[1], dim=1), self.mix_weight)
            return [similarity.cosine_pairs(z1, own)[:, None]]
        excluded = 0.0 if self.variant == "released" else -torch.inf
        first, second = (mix(z, self.mix_weight) for z in constant)
        return [
            replaced(similarity.cosine_matrix(z1, second), -1, excluded),
            replaced(similarity.cosine_matrix(first, z2), 1, excluded),
        ]
