"""DeCLUTR: spans of one document that touch or overlap are alike."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from isospace.errors import UserError
from isospace.losses.contrastive import nt_xent
from isospace.objectives import auxiliaries, decoders
from isospace.objectives.base import Objective, Paper
from isospace.system.settings import settings
from isospace.views import Read, View, Views
from isospace.views.spans import Sampling, Span, Strategy

MASKED = 0.15
"""The share of an anchor's tokens to guess."""


@settings
class DeCLUTR(Objective):
    r"""NT-Xent of spans of documents with the mean of spans near them, and masked tokens to guess.

    $$\mathcal{L} = \mathrm{NTXent}_\tau\big(e(s_k), \tfrac{1}{P} \textstyle\sum_p e(s_{k+p})\big)
        + \lambda\, \mathcal{L}_{\mathrm{MLM}}$$

    $s_k$: the anchors of all documents, A of each, at least $L_{max}$ tokens apart; $s_{k+p}$: the
    P positives of an anchor, which overlap or touch it, averaged without normalising. Other anchors
    of a document are negatives like any other. Relations: `consert` has the same loss on changed
    embeddings; `simcse` on pairs of `columns` reads the user's positives.
    It needs documents of 2 A $L_{max}$ tokens; shorter spans serve paragraphs. Lengths are drawn as
    released, from Beta(4, 2) for anchors and Beta(2, 4) for positives, between $L_{min}$ and
    $L_{max}$. Anchors are embedded with their 15 % masking. With masking all spans are the mean of
    their tokens, as in the paper; without, the encoder's own pooling. The paper starts with a
    pre-trained masked-language head; sentence encoders come without, so here it begins anew.
    """

    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""
    anchors: PositiveInt = 2
    """A, of each document."""
    positives: PositiveInt = 2
    """P, of each anchor."""
    min_span: PositiveInt = 32
    """L_min, tokens of the shortest span."""
    max_span: PositiveInt = 512
    """L_max, spans have fewer tokens, and documents 2 A L_max or more."""
    strategy: Strategy = "free"
    """The place of positives: free overlaps or touches the anchor, subsuming lies within it,
    adjacent touches it."""
    mlm_weight: NonNegativeFloat = 1.0
    """lambda, of guessing 15 % of the anchors' tokens; 0 leaves it out."""

    paper: ClassVar[Paper] = Paper("giorgi-etal-2021-declutr")
    term_names: ClassVar[tuple[str, ...]] = ("nt_xent", "masked_language")
    one_text_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse lengths in the wrong order."""
        if self.min_span >= self.max_span:
            raise UserError(f"`min_span` {self.min_span}: must be below `max_span` {self.max_span}")

    @property
    def views(self) -> tuple[View, ...]:
        """All anchors, then the positives of the first, of the second ..."""
        positives = [
            Span("spans", self._sampling, i, p)
            for i in range(self.anchors)
            for p in range(self.positives)
        ]
        read: Read = "tokens" if self.mlm_weight else "pooled"
        return tuple(View(edit=span, read=read) for span in (*self._anchors, *positives))

    @property
    def inputs(self) -> tuple[View, ...]:
        """The original tokens at the masks of each anchor, if they are guessed."""
        spans = self._anchors if self.mlm_weight else []
        return tuple(View(edit=replace(span, targets=True)) for span in spans)

    @property
    def _sampling(self) -> Sampling:
        return Sampling(self.anchors, self.positives, self.min_span, self.max_span, self.strategy)

    @property
    def _anchors(self) -> list[Span]:
        masked = MASKED if self.mlm_weight else 0.0
        return [Span("spans", self._sampling, i, masked=masked) for i in range(self.anchors)]

    def build_auxiliaries(self, encoder: auxiliaries.Encoder, seed: int) -> auxiliaries.ByName:
        """Build the masked-language head, if it has a weight."""
        limit = encoder.max_length
        if limit is not None and self.max_span + 2 > limit:
            raise ValueError(
                f"`max_span` {self.max_span}: the encoder reads only {limit - 2} tokens"
            )
        if not self.mlm_weight:
            return {}
        return {"masked_language": decoders.MaskedHead(encoder.word_embeddings, encoder.dim)}

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """Contrast all anchors of the batch, and guess their masked tokens."""
        vectors, (_, batch, dim) = views.projected, views.projected.shape
        positives = vectors[self.anchors :].view(self.anchors, self.positives, batch, dim)
        contrast = nt_xent(
            vectors[: self.anchors].flatten(0, 1),
            positives.transpose(1, 2).flatten(0, 1).mean(1),
            self.temperature,
        )
        guessed = vectors.new_zeros(())
        if self.mlm_weight:
            head = views.auxiliaries["masked_language"]
            tokens = [views.tokens[i] for i in range(self.anchors)]
            guessed = self.mlm_weight * head.loss(tokens, views.inputs)
        return {"nt_xent": contrast, "masked_language": guessed}
