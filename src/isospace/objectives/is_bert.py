"""IS-BERT: a sentence's vector should tell its own tokens from those of other sentences."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, PositiveInt

from isospace.errors import UserError
from isospace.losses.detection import token_information
from isospace.objectives import auxiliaries, heads
from isospace.objectives.base import Objective, Paper, Widths
from isospace.system.settings import settings
from isospace.views import View, Views, networks


@settings
class ISBERT(Objective):
    r"""Mutual information between a sentence's vector and the features of its tokens.

    $$\mathcal{L} = \mathbb{E}_{t \notin i}[\mathrm{sp}(s_{ti})]
        + \mathbb{E}_{t \in i}[\mathrm{sp}(-s_{ti})],
        \quad s_{ti} = c_t^\top \tfrac{1}{n_i} \textstyle\sum_{u \in i} c_u$$

    $c_t$: what the convolutions make of token t and its neighbours; sp: softplus; means over all
    tokens of the batch, the special ones too. Relations: `simcse` contrasts sentences with each
    other, here a sentence is contrasted with tokens, and one pass is enough. The evaluated and
    shipped model has the convolutions: a sentence's vector is the mean of their features, 768
    numbers as published.
    Paper and released code differ: the paper has a ReLU behind each convolution (as others quote
    it). The code, which made the published numbers and is followed here, has none, and takes log 2
    off both expectations. It lets the states at the padding into the convolutions, so that a
    sentence depends on the longest of its batch; here they are 0.
    """

    channels: PositiveInt = 256
    """Channels of each convolution."""
    kernels: Annotated[Widths, Field(min_length=1)] = (1, 3, 5)
    """Tokens that each convolution sees, odd numbers."""
    variant: Literal["released", "paper"] = "released"
    """released: no ReLU, log 2 taken off. paper: ReLU, and not."""

    paper: ClassVar[Paper] = Paper("zhang-etal-2020-unsupervised")
    term_names: ClassVar[tuple[str, ...]] = ("own_tokens", "other_tokens")

    def __post_init__(self) -> None:
        even = [kernel for kernel in self.kernels if kernel % 2 == 0]
        if even:
            raise UserError(f"`kernels` {even[0]}: must be odd")

    @property
    def views(self) -> tuple[View, ...]:
        return (View(read="tokens"),)

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        relu, generator = self.variant == "paper", heads.seeded(seed)
        layers = networks.Convolutions(
            encoder.dim, self.channels, self.kernels, relu=relu, generator=generator
        )
        return {"convolutions": layers}

    def shipped(self, built: auxiliaries.ByName) -> torch.nn.Module:
        """Return the convolutions, whose mean over tokens is the vector."""
        return built["convolutions"]

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        tokens = views.tokens[0]
        local = views.auxiliaries["convolutions"](tokens.states, tokens.mask)
        sentence = local.sum(1) / tokens.mask.sum(1, keepdim=True)
        released = self.variant == "released"
        own, others = token_information(local, sentence, tokens.mask, constants=released)
        return {"own_tokens": -own, "other_tokens": others}
