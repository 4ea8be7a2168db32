"""MoCoSE: one branch predicts another that follows it, with a queue of the other's vectors."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, ClassVar

import torch
from pydantic import Field, PositiveFloat, PositiveInt

from isospace.errors import UserError
from isospace.losses.contrastive import info_nce
from isospace.objectives import auxiliaries, heads
from isospace.objectives.base import Objective, Paper
from isospace.system.settings import DropoutRate, settings
from isospace.views import View, Views


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
    - The code switches dropout on in the copies, which were made without; here that of the encoder
      is clean (its projection keeps `head_dropout`).
    - The optimiser of the code trains the copy of the projection too; here it only follows.
    - The code's queue begins with K random unit vectors, all of which count, and is up to twice as
      long for a while; here it begins with `queue_start` of them.
    - Behind T updates the code's $m_t$ falls again; here it stays 1.
    - The code's branches share the layer of embeddings, which is so trained through both; here the
      momentum copy has its own.
    - The paper moves the words' embeddings along the sign of the last batch's gradient; the code
      by 5e-9 or not at all, which is about the last bit of an embedding. Here they stay.

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
        """One by the encoder, and a clean one by the momentum network."""
        return (View(), View(dropout=0.0, by="momentum"))

    def momentum_at(self, update: int) -> float:
        """Return m_t before this update, counted from 1."""
        share = min(1.0, update / self.momentum_updates)
        return 1 - (1 - self.momentum) * (math.cos(math.pi * share) + 1) / 2

    @property
    def training_head(self) -> heads.Head:
        """The two branches' projections, and the predictor."""
        return partial(heads.MomentumHead, dropout=self.head_dropout, momentum=self.momentum_at)

    def build_auxiliaries(self, encoder: auxiliaries.Encoder, seed: int) -> auxiliaries.ByName:
        """Build the momentum network and the queue."""
        drawn = torch.randn(self.queue_start, encoder.dim, generator=heads.seeded(seed))
        start = torch.nn.functional.normalize(drawn, dim=1)
        return {
            "momentum": auxiliaries.Network(encoder, momentum=self.momentum_at),
            "queue": auxiliaries.Queue(self.queue_size, encoder.dim, view=1, start=start),
        }

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """Contrast over batch and queue."""
        query, keys = views.projected
        negatives = views.auxiliaries["queue"].rows.to(query)
        return {"info_nce": info_nce(query, keys, self.temperature, negatives)}
