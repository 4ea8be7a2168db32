"""ESimCSE: repeated words in the second view, and a queue of a momentum network's vectors."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field, NonNegativeInt

from isospace.objectives import auxiliaries, heads
from isospace.objectives.base import HeadChoice, Paper
from isospace.objectives.contrast import Contrast, Plan
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import View, Views
from isospace.views.edits import Repeat


@settings
class ESimCSE(Contrast):
    r"""InfoNCE with repeated words in the positive, and negatives from a queue.

    $$\ell_i = -\log \frac{e^{\cos(z_i, z^+_i)/\tau}}
        {\sum_j e^{\cos(z_i, z^+_j)/\tau} + \sum_{q \in Q} e^{\cos(z_i, q)/\tau}}$$

    $z$: the sentence, $z^+$: the sentence with some words doubled. $Q$: the last vectors of a
    momentum network $\theta_m \leftarrow m\,\theta_m + (1 - m)\,\theta$, which sees the sentence
    without dropout, through the current head. Relations: without repetition and queue it is
    `simcse`; `gs-infonce` has noise in the place of the queue.
    Paper and released code differ: the paper draws up to max(2, rate n) repetitions of n words, the
    code (followed here, with which the rate was tuned) fewer than min(10, rate L), with the special
    tokens counted. The release's momentum network never gets the pre-trained weights; here it
    starts from them.
    Over pairs of texts $z$ is of the anchor, $z^+$ of the positive with words doubled, and the
    queue takes the momentum network's vectors of both texts.
    """

    repetition_rate: Annotated[float, Field(ge=0, lt=1)] = 0.32
    """dup_rate, bounds the share of tokens that are doubled (0.32 for BERT, 0.30 for RoBERTa)."""
    queue_size: NonNegativeInt = 160
    """Vectors in the queue, 2.5 batches of 64."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.995
    """m, of the network that fills the queue."""
    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none."""

    paper: ClassVar[Paper] = Paper("wu-etal-2022-esimcse")

    @property
    def plan(self) -> Plan:
        """The sentence, with repeated words, and clean by the momentum network."""
        repeated = View(edit=Repeat(rate=self.repetition_rate))
        views = (View(), repeated, View(dropout=0.0, by="momentum"))
        return Plan(views, heads.mlp_or_none(self.head), self.logits)

    def build_auxiliaries(self, encoder: auxiliaries.Encoder, seed: int) -> auxiliaries.ByName:
        """Build the momentum network and the queue of its vectors."""
        return {
            "momentum": auxiliaries.Network(encoder, momentum=self.momentum),
            "queue": auxiliaries.Queue(self.queue_size, encoder.dim, view=2),
        }

    def logits(self, views: Views) -> torch.Tensor:
        """Compare anchors with batch and queue."""
        z1, z2, _ = views.projected
        columns = torch.cat([z2, views.auxiliaries["queue"].rows.to(z1)])
        return similarity.cosine_matrix(z1, columns) / self.temperature
