"""GS-InfoNCE: Gaussian noise as further negatives."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import PositiveInt

from isospace.objectives import heads
from isospace.objectives.base import HeadChoice, Paper
from isospace.objectives.contrast import Contrast
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import Views


@settings
class GSInfoNCE(Contrast):
    r"""InfoNCE whose negatives are extended by random directions.

    $$\ell_i = -\log \frac{e^{\cos(z_i, z'_i)/\tau}}
        {\sum_j e^{\cos(z_i, z'_j)/\tau} + \sum_{m=1}^M e^{\cos(z_i, g_m)/\tau}}, \qquad
      g_m \sim \mathcal N(0, I)$$

    $g$: drawn anew in every step, the same for all sentences, never passed through the head.
    Relations: M = 0 would be `simcse`; `mixcse` mixes its further negatives from the batch. The
    released code has a standard deviation of the noise (0.1 to 0.5), which a cosine does not see,
    so there is none here. With the published numbers goes a higher dropout rate of the encoder for
    BERT (0.2, a setting of the run), 0.1 for RoBERTa.
    """

    noise_rows: PositiveInt = 192
    """M, noise vectors in a step (code; 3 times the batch of 64)."""
    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none."""

    paper: ClassVar[Paper] = Paper(
        """@inproceedings{wu-etal-2022-smoothed,
    title = {Smoothed Contrastive Learning for Unsupervised Sentence Embedding},
    author = {Wu, Xing and Gao, Chaochen and Su, Yipeng and Han, Jizhong and Wang, Zhongyuan and
              Hu, Songlin},
    booktitle = {Proceedings of COLING 2022},
    pages = {4902--4906},
    year = {2022},
    url = {https://aclanthology.org/2022.coling-1.434},
}""",
    )

    def projected_views(self, batch: int) -> int:
        """The noise travels as further views."""
        return super().projected_views(batch) + -(-self.noise_rows // batch)

    @property
    def own_head_summary(self) -> str:
        """The head in a few words."""
        return " + ".join(["tanh MLP"] * (self.head == "mlp") + ["Gaussian rows"])

    def own_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        """The tanh MLP or nothing, then the noise."""
        head = super().own_head(dim, generator)
        return torch.nn.Sequential(head, heads.GaussianRows(self.noise_rows, generator))

    def logits(self, views: Views) -> torch.Tensor:
        """Over the batch and the noise."""
        z1, z2, *packed = views.projected
        noise = torch.cat(packed)[: self.noise_rows]
        return similarity.cosine_matrix(z1, torch.cat([z2, noise])) / self.temperature
