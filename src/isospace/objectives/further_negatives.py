"""Objectives with further negatives: noise, mixes of the batch, or a queue."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from isospace.losses.contrastive import (
    hardened_noise,
    info_nce,
    mixed_cosines,
    negative_weights,
    weighted_cross_entropy,
)
from isospace.objectives import auxiliaries, heads
from isospace.objectives.base import Objective, OnCosines, Paper
from isospace.objectives.contrast import Contrast
from isospace.operators import similarity
from isospace.system.settings import DropoutRate, settings
from isospace.views import View, Views
from isospace.views.edits import Repeat


@settings
class GSInfoNCE(Contrast, OnCosines):
    r"""InfoNCE whose negatives are extended by random directions.

    $$\ell_i = -\log \frac{e^{\cos(z_i, z'_i)/\tau}}
        {\sum_j e^{\cos(z_i, z'_j)/\tau} + \sum_{m=1}^M e^{\cos(z_i, g_m)/\tau}}, \qquad
      g_m \sim \mathcal N(0, I)$$

    $g$: new in every step, the same for all sentences, never passed through the head. Relations:
    M = 0 would be `simcse`; `mixcse` mixes its further negatives. The released code scales the
    noise, which a cosine does not see. The published numbers have an encoder dropout of 0.2 (BERT).
    """

    noise_rows: PositiveInt = 192
    """M, noise vectors in a step (code; 3 times the batch of 64)."""

    paper: ClassVar[Paper] = Paper("wu-etal-2022-smoothed")

    def own_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        """Make the tanh MLP or nothing, then the noise, which travels as further views."""
        own = super().own_head(dim, generator)
        return torch.nn.Sequential(own, heads.GaussianRows(self.noise_rows, generator))

    def logits(self, views: Views) -> torch.Tensor:
        z1, z2, *packed = views.projected
        noise = torch.cat(packed)[: self.noise_rows]
        return similarity.cosine_matrix(z1, torch.cat([z2, noise])) / self.temperature


@settings
class MixCSE(Contrast, OnCosines):
    r"""InfoNCE with negatives that are mixed from the positive and another sentence.

    $$\ell_i = -\log \frac{e^{s(z_i, z'_i)}}{\sum_j e^{s(z_i, z'_j)} + \sum_{j \ne i-1}
      e^{s(z_i, m'_j)} + \sum_{j \ne i+1} e^{s(m_i, z'_j)}}, \qquad
      m_j = \mathrm{sg}(\lambda z_j + (1 - \lambda) z_{j+1})$$

    $s = \cos/\tau$; $m'$: of the second view; sg: a constant; the row after the last is the first.
    A mix that is mostly the anchor's own positive is excluded. Relations: without the mixes it is
    `simcse`; `gs-infonce` adds noise instead.

    Where paper and released code differ:
    - Code: all N mixes of either view count for every anchor. Paper (`variant="paper"`): vectors of
      length 1 are mixed, and an anchor has one mix, that of its own positive. The default follows
      the code, which gave the published numbers.
    - The code leaves excluded cells at cosine 0 (`variant="released"`); the loss hardly differs.
    - The paper's partner is a random sentence, the code's and ours the next row of the batch, which
      is shuffled.
    """

    mix_weight: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """lambda, share of the positive in a mix."""
    variant: Literal["masked", "released", "paper"] = "masked"
    """Mixes of the anchor's own positive: left out (masked), at logit 0 (released), or alone, one
    for each anchor (paper)."""

    paper: ClassVar[Paper] = Paper("zhang-etal-2022-mixing")

    def logits(self, views: Views) -> torch.Tensor:
        z1, z2 = views.projected
        mixed = mixed_cosines(z1, z2, self.mix_weight, variant=self.variant)
        return torch.cat([similarity.cosine_matrix(z1, z2), mixed], dim=1) / self.temperature


@settings
class DCLR(OnCosines):
    r"""InfoNCE with weights for the batch's negatives, and with hardened noise.

    $$\ell_i = -\log \frac{e^{s(z_i, z'_i)}}
        {\sum_j w_{ij} e^{s(z_i, z'_j)} + \sum_{l \le kN} e^{s(z_i, \hat z_l)}}, \qquad
        w_{ij} = [i = j \lor \cos(c_i, c_j) \le \varphi]$$

    $s = \cos/\tau$. $\hat z$: drawn from N(0, I), then moved `steps` times by `step_size` along the
    gradient of the InfoNCE without weights. $c$: vectors of a frozen copy of the base model, before
    the head; the paper's is a SimCSE model, so start from one. Relations: without noise, and with
    $\varphi$ = 1, it is `simcse`; `gs-infonce` leaves its noise as drawn.

    Where paper and released code differ (`variant="released"`):
    - The code multiplies logits by the weights, so that a false negative counts at cosine 0. By
      default it is left out.
    - The code's loss is a binary cross-entropy of each cell of the softmax, not a number once a
      positive's probability rounds to 1 (here finite). By default it is the softmax's.
    - The code compares two views of the frozen network under dropout; by default it is clean.
    - Not here: the code compares $\cos/\tau$ with $20 \varphi$, which is right only for $\tau$ =
      0.05, and has two poolers before the head.

    Over pairs of texts $z'$ and $c$ are of the positive: j is no negative of i where their
    positives are too alike. That is our reading: $\varphi$ is for texts of one kind, and even a
    question's own answer is mostly below it.
    """

    threshold: Annotated[float, Field(ge=-1, le=1)] = 0.9
    """phi, the cosine above which a negative is false (0.9 for BERT, 0.85 for RoBERTa)."""
    noise_times: NonNegativeFloat = 1.0
    """k, noise vectors for each sentence (BERT base 1, large 3; RoBERTa base 2.5, large 5)."""
    steps: NonNegativeInt = 4
    """Steps that make the noise hard."""
    step_size: PositiveFloat = 1e-3
    """Length of each step."""
    variant: Literal["paper", "released"] = "paper"
    """False negatives left out of a softmax loss (paper), or at logit 0 of binary ones."""

    paper: ClassVar[Paper] = Paper("zhou-etal-2022-debiased")

    @property
    def views(self) -> tuple[View, ...]:
        if self.variant == "released":
            return (View(), View(), View(by="frozen"), View(by="frozen"))
        return (View(), View(), View(dropout=0.0, by="frozen"))

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        return {"frozen": auxiliaries.Network(encoder), "noise": auxiliaries.Draws(seed)}

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        z1, z2 = views.projected[:2]
        frozen = views.encoded[2:].detach()
        draws = views.auxiliaries["noise"]
        count = int(self.noise_times * len(z1))
        drawn = torch.randn(count, z1.shape[1], generator=draws.generator).to(z1)
        noise = hardened_noise(
            drawn, z1, z2, temperature=self.temperature, steps=self.steps, step_size=self.step_size
        )
        logits = similarity.cosine_matrix(z1, torch.cat([z2, noise])) / self.temperature
        weights = negative_weights(frozen[0], frozen[-1], self.threshold)
        loss = weighted_cross_entropy(logits, weights, released=self.variant == "released")
        return {"info_nce": loss}


@settings
class ESimCSE(Contrast, OnCosines):
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
    Over pairs of texts the queue takes the momentum network's vectors of both texts.
    """

    repetition_rate: Annotated[float, Field(ge=0, lt=1)] = 0.32
    """dup_rate, bounds the share of tokens that are doubled (0.32 for BERT, 0.30 for RoBERTa)."""
    queue_size: NonNegativeInt = 160
    """Vectors in the queue, 2.5 batches of 64."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.995
    """m, of the network that fills the queue."""

    paper: ClassVar[Paper] = Paper("wu-etal-2022-esimcse")

    @property
    def own_views(self) -> tuple[View, ...]:
        repeated = View(edit=Repeat(rate=self.repetition_rate))
        return (View(), repeated, View(dropout=0.0, by="momentum"))

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
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

    Over pairs of texts the queue takes the keys of both directions, as MoCo's symmetric loss does.
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

    @property
    def views(self) -> tuple[View, ...]:
        return (View(), View(dropout=0.0, by="momentum"))

    def momentum_at(self, update: int) -> float:
        """Return m_t before this update, counted from 1."""
        share = min(1.0, update / self.momentum_updates)
        return 1 - (1 - self.momentum) * (math.cos(math.pi * share) + 1) / 2

    def make_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        return heads.MomentumHead(
            dim, generator, dropout=self.head_dropout, momentum=self.momentum_at
        )

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
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
