"""DiffCSE: tell which words were replaced, knowing the sentence's vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, PositiveFloat

from isospace.losses.detection import replace_words, replacement_detection
from isospace.objectives import auxiliaries, decoders, heads
from isospace.objectives.base import Paper
from isospace.objectives.contrast import Contrast, Term
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import View, Views
from isospace.views.edits import MaskTokens


@settings
class DiffCSE(Contrast):
    r"""InfoNCE, and detection of replaced words by a network that knows the sentence's vector.

    $$\ell = \ell_\mathrm{InfoNCE}(z, z') + \lambda\,\frac1{\sum_i n_i} \sum_i \sum_t
        \mathrm{CE}\big(D(x''_i, z_i)_t,\ [x''_{it} \ne x_{it}]\big)$$

    $x''$: the sentence with words that a frozen masked-language model filled in where $x'$ had
    masks; $D$: a copy of the encoder, trained, which reads $x''$ with the projected vector $z_i$ in
    the place of the first token's embedding; both views are used, each with masks of its own. The
    gradient of the second term reaches the encoder through $z$ alone. Relations: the first term is
    `simcse` with another head; SimCSE++ lays clean negatives and the contrast between dimensions
    over it.
    Paper and released code differ: the paper samples words at the masks; the code (followed here,
    since with it lambda was tuned) takes the likeliest word at every place, masked or not. The
    code's mean counts padding, which makes lambda depend on the longest sentence of a batch; here
    it is over tokens, and with `positions` all as in the code. The code masks 80 % of the drawn
    words, and its generator runs under dropout; here all are masked, and it runs without.
    Over pairs of texts $z$ is of the anchor and $z'$ of its positive. $x$ is the anchor, and the
    detector reads its vector $z$ with both $x''$: the positive has other words.
    """

    detection_weight: PositiveFloat = 0.005
    """lambda (0.005 for STS, 0.05 for transfer)."""
    mask_rate: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Chance of a word to be masked (0.30 for BERT, 0.20 for RoBERTa; 0.15 for transfer)."""
    generator: str | None = None
    """Masked-language model that fills the masks, with the vocabulary of the encoder; "words"
    draws words of the batch instead. Default: the checkpoint that training starts from, if it
    is one."""
    variant: Literal["released", "paper"] = "released"
    """All words are replaced by the likeliest (released code), or the masked by sampled ones
    (paper)."""
    positions: Literal["tokens", "all"] = "tokens"
    """Positions where replacement is detected: tokens, or all, padding included (released code)."""

    paper: ClassVar[Paper] = Paper("chuang-etal-2022-diffcse")

    @property
    def inputs(self) -> tuple[View, ...]:
        masked = View(edit=MaskTokens(rate=self.mask_rate), of_anchor=True)
        return (View(of_anchor=True), masked, masked)

    @property
    def own_head(self) -> heads.Head:
        return heads.JointProjector

    @property
    def further(self) -> Mapping[str, Term]:
        return {"detection": self.detection}

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        own = self.generator
        try:
            generator = None if own == "words" else encoder.language_model(own)
        except ValueError as error:
            raise ValueError(
                f"{error}. Name a generator with `generator`, or draw words of the batch: "
                "`generator` words"
            ) from error
        return {"detector": decoders.Detector(encoder, generator, seed)}

    def logits(self, views: Views) -> torch.Tensor:
        return similarity.cosine_matrix(*views.projected) / self.temperature

    def detection(self, views: Views, logits: torch.Tensor) -> torch.Tensor:
        z1, z2 = views.projected
        known = torch.cat([z1, z1 if views.paired else z2])
        detector = views.auxiliaries["detector"]
        original, *masked = views.inputs
        everywhere = self.variant == "released" and self.generator != "words"
        guesses = [detector.guesses(original, m, sampled=self.variant == "paper") for m in masked]
        shown = torch.cat(
            [
                replace_words(original.ids, m.ids, words, original.mask, everywhere=everywhere)
                for m, words in zip(masked, guesses, strict=True)
            ]
        )
        ids, mask = original.ids.repeat(2, 1), original.mask.repeat(2, 1)
        found = detector(known, shown, mask)
        loss = replacement_detection(found, shown, ids, mask, positions=self.positions)
        return self.detection_weight * loss
