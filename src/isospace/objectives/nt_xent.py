"""Contrasts of two views in both directions (NT-Xent): ConSERT and VaSCL."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt

from isospace.errors import UserError
from isospace.losses.contrastive import neighbour_nt_xent, nt_xent
from isospace.objectives import heads
from isospace.objectives.base import Objective, Paper
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import Perturbation, View, Views
from isospace.views.edits import CutOff, ShuffledPositions

Change = Literal["feature-cutoff", "token-cutoff", "element-cutoff", "shuffle", "none"]


@settings
class ConSERT(Objective):
    r"""NT-Xent between two views whose embeddings are changed before the first layer.

    $$\mathcal{L} = -\frac{1}{2N} \sum_{i=1}^{2N} \log \frac{e^{\cos(z_i, z_{i'})/\tau}}
        {\sum_{j \ne i} e^{\cos(z_i, z_j)/\tau}}$$

    $z$: the 2N vectors of both views, $i'$: the other view of the sentence of i. One view has
    features set to 0, the other exchanges the positions of its tokens, [CLS] and [SEP] included;
    dropout is off. Relations: `simcse` has dropout for its only change and one direction, without
    negatives from the same view. There is no head; the paper pools the mean of the last two layers.
    Paper and released code differ: the code's loss is 0.3 times that of the paper and of this
    class, which Adam hardly notices. The script for large models leaves the first view alone, with
    dropout on (`first` none, `second` shuffle, `with_dropout`).
    """

    temperature: PositiveFloat = 0.1
    """tau, divides the cosines."""
    first: Change = "feature-cutoff"
    """The change of the first view's embeddings: a share is set to 0, or positions are shuffled."""
    second: Change = "shuffle"
    """The change of the second view's embeddings."""
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share that a cut-off sets to 0."""
    with_dropout: bool = False
    """The encoder's own dropout, in both views."""

    paper: ClassVar[Paper] = Paper("yan-etal-2021-consert")

    def __post_init__(self) -> None:
        if self.first == self.second == "none" and not self.with_dropout:
            raise UserError("`first` and `second` none: set one of them, or `with_dropout`")

    def _change(self, name: Change) -> Perturbation | None:
        return {
            "none": None,
            "shuffle": ShuffledPositions(),
            "feature-cutoff": CutOff("features", self.rate),
            "token-cutoff": CutOff("tokens", self.rate),
            "element-cutoff": CutOff("elements", self.rate),
        }[name]

    @property
    def views(self) -> tuple[View, ...]:
        rate = None if self.with_dropout else 0.0
        return tuple(View(rate, perturb=self._change(name)) for name in (self.first, self.second))

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        z1, z2 = views.projected
        return {"nt_xent": nt_xent(z1, z2, self.temperature)}


@settings
class VaSCL(Objective):
    r"""NT-Xent of two dropout views, and of a sentence and its virtual view among its neighbours.

    $$\ell = \ell_\mathrm{NT}(g(e), g(e')) + \ell_\mathrm{NT}^{\mathcal N}(g(e), g(e + \delta)),
      \qquad \delta_i = \Delta\, \frac{\nabla_d \ell_i(d)}{\|\nabla_d \ell_i(d)\| + 10^{-8}}$$

    $\ell_\mathrm{NT}$: both directions, all 2N rows, cosines over $\tau$; in
    $\ell^{\mathcal N}$ the negatives of i are both views of its k nearest sentences, by inner
    products of e. $\ell_i(d)$: the loss of $g(e_i + \xi d)$ against $g$ of the neighbours, at a
    random unit vector d. g: the head, without biases. Relations: without the second term it is the
    symmetric loss of `simcse`'s views, under another head. It was published with mean pooling,
    batches of 1,024 and a learning rate of the head far above the encoder's.

    The released code treats e and g(e) as constants in the second term, which then trains the head
    alone. That is the default, because the published numbers are of this code; `stop_gradient`
    turned off trains the encoder too. $\delta$ is always a constant.
    """

    neighbours: PositiveInt = 16
    """k, nearest sentences in the batch that are negatives of a virtual view; in small ones all."""
    radius: PositiveFloat = 15.0
    """Delta, length of the step from a sentence to its virtual view."""
    start_radius: PositiveFloat = 15.0
    """xi, length of the random step to the point whose gradient is followed."""
    width: PositiveInt = 128
    """Width of the head's output."""
    stop_gradient: bool = True
    """Train only the head by the virtual views (released code)."""
    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""

    paper: ClassVar[Paper] = Paper("zhang-etal-2022-virtual")

    def make_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        return heads.VirtualView(
            dim,
            generator,
            width=self.width,
            neighbours=self.neighbours,
            radius=self.radius,
            start_radius=self.start_radius,
            temperature=self.temperature,
            stop_gradient=self.stop_gradient,
        )

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        first, second, virtual = views.projected
        neighbours = similarity.nearest_others(views.encoded[0].detach(), self.neighbours)
        sentence = first.detach() if self.stop_gradient else first
        return {
            "nt_xent": nt_xent(first, second, self.temperature),
            "virtual": neighbour_nt_xent(sentence, virtual, neighbours, self.temperature),
        }
