"""VaSCL: contrast with a virtual view, moved to where the neighbours confuse it most."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from pydantic import PositiveFloat, PositiveInt

from isospace.losses.contrastive import neighbour_nt_xent, nt_xent
from isospace.objectives import heads
from isospace.objectives.base import Objective, Paper
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import Views


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
    """k, the number of nearest sentences in the batch that are negatives of a virtual view; in a
    small batch, all others."""
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
    term_names: ClassVar[tuple[str, ...]] = ("nt_xent", "virtual")

    @property
    def training_head(self) -> heads.Head:
        return partial(heads.VirtualView, settings=self)

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        first, second, virtual = views.projected
        neighbours = similarity.nearest_others(views.encoded[0].detach(), self.neighbours)
        sentence = first.detach() if self.stop_gradient else first
        return {
            "nt_xent": nt_xent(first, second, self.temperature),
            "virtual": neighbour_nt_xent(sentence, virtual, neighbours, self.temperature),
        }
