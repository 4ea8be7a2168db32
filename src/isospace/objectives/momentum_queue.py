"""Negatives from a queue that a momentum network fills: ESimCSE, MoCoSE."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, ClassVar

import torch
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from isospace.errors import UserError
from isospace.losses.contrastive import info_nce
from isospace.objectives import auxiliaries, heads
from isospace.objectives.base import MLPOrNone, Objective, Paper
from isospace.objectives.contrast import Contrast, Plan
from isospace.operators import similarity
from isospace.system.settings import DropoutRate, settings
from isospace.views import View, Views
from isospace.views.edits import Repeat


@settings
class ESimCSE(Contrast, MLPOrNone):
    r"""InfoNCE with repeated words in the positive, and negatives from a queue.

    $$\ell_i = -\log \frac{e^{\cos(z_i, z^+_i)/\tau}}
        {\sum_j e^{\cos(z_i, z^+_j)/\tau} + \sum_{q \in Q} e^{\cos(z_i, q)/\tau}}$$

    $z$: the sentence, $z^+$: the sentence with some words doubled. $Q$: the last vectors of a
    momentum network $\theta_m \leftarrow m\,\theta_m + (1 - m)\,\theta$, which sees the sentence
    without dropout, through the current head. Relations: without repetition and queue it is
    `simcse`; `gs-infonce` has noise in the place of the queue.
    Paper and released code differ: the paper draws up to max(2, rate n) repetitions of n words, the
    code (followed here, with which the rate was tuned) fewer than min(10, rate L), with the special
    tokens counted. The release's momentum network starts without the pre-trained weights.
    Over pairs of texts $z$ is of the anchor, $z^+$ of the positive with words doubled, and the
    queue takes the momentum network's vectors of both texts.
    """

    repetition_rate: Annotated[float, Field(ge=0, lt=1)] = 0.32
    """dup_rate, bounds the share of tokens that are doubled (0.32 for BERT, 0.30 for RoBERTa)."""
    queue_size: NonNegativeInt = 160
    """Vectors in the queue, 2.5 batches of 64."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.995
    """m, of the network that fills the queue."""

    paper: ClassVar[Paper] = Paper("wu-etal-2022-esimcse")

    @property
    def plan(self) -> Plan:
        repeated = View(edit=Repeat(rate=self.repetition_rate))
        views = (View(), repeated, View(dropout=0.0, by="momentum"))
        return Plan(views, heads.mlp_or_none(self.head), self.logits)

    def build_auxiliaries(self, encoder: auxiliaries.Encoder, seed: int) -> auxiliaries.ByName:
        return {
            "momentum": auxiliaries.Network(encoder, momentum=self.momentum),
            "queue": auxiliaries.Queue(self.queue_size, encoder.dim, view=2),
        }

    def logits(self, views: Views) -> torch.Tensor:
        z1, z2, _ = views.projected
        columns = torch.cat([z2, views.auxiliaries["queue"].rows.to(z1)])
        return similarity.cosine_matrix(z1, columns) / self.temperature


@settings
class MoCoSE(Objective):
    r"""InfoNCE of a predicted vector with that of a momentum branch, and negatives from its past.

    $$\ell_i = -\log \frac{e^{\cos(q_i, k_i)/\tau}}
        {\sum_j e^{\cos(q_i, k_j)/\tau} + \sum_{n \in Q} e^{\cos(q_i, n)/\tau}}$$

    $q$: encoder, pooler, projection, predictor. $k$: copies of the first three, which follow:
    $\theta_k \leftarrow m_t \theta_k + (1 - m_t) \theta_q$, with
    $m_t = 1 - (1 - m)(\cos(\pi t / T) + 1)/2$. $Q$: the last $K$ of the $k$. Relations: with no
    queue, and both branches the same, it is `simcse`; `esimcse` has one head for both, and its
    queue is of vectors that are no positives.

    Where paper and released code differ, or the code goes wrong:
    - The code's copies are under dropout; here that of the encoder is clean (its projection keeps
      `head_dropout`).
    - The optimiser of the code trains the copy of the projection too; here it only follows.
    - The code's queue begins with K random unit vectors, and is up to twice as long for a while;
      here it begins with `queue_start` of them.
    - After T updates the code's $m_t$ falls again; here it stays 1.
    - The code's branches share the layer of embeddings; here the momentum copy has its own.
    - The paper moves the words' embeddings along the sign of the last batch's gradient; the code
      by 5e-9 or not at all. Here they stay.

    Over pairs of texts $q$ is of the anchor and $k$ of its positive; the queue takes the keys of
    both directions, as MoCo's symmetric loss does (He et al. 2020, released code).
    """

    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""
    queue_size: PositiveInt = 256
    """K, vectors in the queue (256 as released; the paper's ablation prefers 512)."""
    queue_start: PositiveInt = 128
    """Random unit vectors in the queue before the first update."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.75
    """m, at the start of training (0.75 and 0.85 as released)."""
    momentum_updates: PositiveInt = 15_000
    """T, updates over which it rises to 1."""
    head_dropout: DropoutRate = 0.1
    """Rate in projection and predictor."""

    paper: ClassVar[Paper] = Paper("cao-etal-2022-exploring")
    term_names: ClassVar[tuple[str, ...]] = ("info_nce",)

    def __post_init__(self) -> None:
        if self.queue_start > self.queue_size:
            raise UserError(
                f"`queue_start` {self.queue_start}: must be at most `queue_size` {self.queue_size}"
            )

    @property
    def views(self) -> tuple[View, ...]:
        return (View(), View(dropout=0.0, by="momentum"))

    def momentum_at(self, update: int) -> float:
        """Return m_t before this update, counted from 1."""
        share = min(1.0, update / self.momentum_updates)
        return 1 - (1 - self.momentum) * (math.cos(math.pi * share) + 1) / 2

    @property
    def training_head(self) -> heads.Head:
        return partial(heads.MomentumHead, dropout=self.head_dropout, momentum=self.momentum_at)

    def build_auxiliaries(self, encoder: auxiliaries.Encoder, seed: int) -> auxiliaries.ByName:
        drawn = torch.randn(self.queue_start, encoder.dim, generator=heads.seeded(seed))
        start = torch.nn.functional.normalize(drawn, dim=1)
        return {
            "momentum": auxiliaries.Network(encoder, momentum=self.momentum_at),
            "queue": auxiliaries.Queue(self.queue_size, encoder.dim, view=1, start=start),
        }

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        query, keys = views.projected
        negatives = views.auxiliaries["queue"].rows.to(query)
        return {"info_nce": info_nce(query, keys, self.temperature, negatives)}
