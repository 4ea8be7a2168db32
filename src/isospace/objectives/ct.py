"""CT: two towers that start equal and separate on pairs of unlike sentences."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import PositiveFloat, PositiveInt

from isospace.losses.contrastive import contrastive_tension, diagonal_cross_entropy, pair_layout
from isospace.objectives import auxiliaries
from isospace.objectives.base import Objective, Paper
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import View, Views


@settings
class CT(Objective):
    r"""Inner products of two towers: large for a sentence with itself, small for unlike ones.

    $$\ell = -\frac1{(1 + K) N} \sum_i \Big[\log \sigma(\langle a_i, b_i \rangle)
        + \sum_{k=1}^{K} \log \sigma(-\langle a_{n_{ik}}, b_{n'_{ik}} \rangle)\Big]$$

    $a, b$: vectors of the encoder and of a second one, a copy at the start, both trained, neither
    with dropout. $n, n'$: drawn from the batch, each by itself, so that one negative pair in B - 1
    is a sentence with itself. The draws set the towers apart, which a symmetric loss over all pairs
    would keep equal. Relations: `ct-in-batch` compares all with all, and takes pairs of texts.

    Where paper and released code differ:
    - Code, the default, since the published numbers are its: two unrelated sentences make a
      negative pair. Paper (`variant="paper"`): the positive and another sentence.
    - The release trains on batches of 16 pairs of 30 sentences. Here every sentence of the batch is
      a positive, so a batch of B makes 8 B pairs.
    - The release keeps the tower that is better on labelled pairs; here the first is the encoder.
      Its optimiser (RMSprop) and steps of the learning rate are not an objective's.
    """

    num_negatives: PositiveInt = 7
    """K, negative pairs for each positive one."""
    variant: Literal["released", "paper"] = "released"
    """Negative pairs of two unrelated sentences (released), or with the positive (paper)."""

    paper: ClassVar[Paper] = Paper("carlsson-etal-2021-semantic")
    term_names: ClassVar[tuple[str, ...]] = ("positives", "negatives")
    one_text_only: ClassVar[bool] = True

    @property
    def views(self) -> tuple[View, ...]:
        return (View(dropout=0.0), View(dropout=0.0, by="second"))

    def build_auxiliaries(self, encoder: auxiliaries.Encoder, seed: int) -> auxiliaries.ByName:
        second = auxiliaries.Network(encoder, trained=True)
        return {"second": second, "pairs": auxiliaries.Draws(seed)}

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        a, b = views.encoded
        own = torch.arange(len(a))
        draws = views.auxiliaries["pairs"]
        shape = (len(a), 2, self.num_negatives)
        others = torch.randint(len(a) - 1, shape, generator=draws.generator)
        others += others >= own[:, None, None]
        pairs = pair_layout(own, others, with_positive=self.variant == "paper")
        first, second, labels = (x.to(a.device) for x in pairs)
        losses = contrastive_tension(a[first], b[second], labels) / len(labels)
        return {"positives": losses @ labels.to(a), "negatives": losses @ (1 - labels).to(a)}


@settings
class CTInBatch(Objective):
    r"""InfoNCE in both directions between two towers, with a scale that is learnt.

    $$\ell_i = -\tfrac12 \Big[\log \frac{e^{s \cos(a_i, b_i)}}{\sum_j e^{s \cos(a_i, b_j)}}
        + \log \frac{e^{s \cos(a_i, b_i)}}{\sum_j e^{s \cos(a_j, b_i)}}\Big]$$

    $a, b$: vectors of the encoder and of a second one, a copy at the start, both trained under
    dropout. $s$: `scale`, its logarithm is trained. Relations: `ct` draws pairs; with one tower
    and one direction this is `simcse`. It is sentence-transformers' version of CT, no paper's;
    there the second tower is kept, here the first is the encoder.
    Over pairs of texts the first tower reads the anchor and the second its positive, and the other
    way round.
    """

    scale: PositiveFloat = 20.0
    """s at the start, multiplies the cosines."""

    paper: ClassVar[Paper] = Paper("carlsson-etal-2021-semantic")
    term_names: ClassVar[tuple[str, ...]] = ("first_to_second", "second_to_first")

    @property
    def views(self) -> tuple[View, ...]:
        return (View(), View(by="second"))

    def build_auxiliaries(self, encoder: auxiliaries.Encoder, seed: int) -> auxiliaries.ByName:
        scale = torch.nn.ParameterDict({"log": torch.tensor(self.scale).log()})
        return {"second": auxiliaries.Network(encoder, trained=True), "scale": scale}

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        scale = views.auxiliaries["scale"]["log"].to(views.encoded).exp()
        logits = scale * similarity.cosine_matrix(*views.encoded)
        directions = zip(self.term_names, (logits, logits.T), strict=True)
        return {name: diagonal_cross_entropy(rows).mean() / 2 for name, rows in directions}
