"""DeCLUTR: spans of one document that touch or overlap are alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from isospace.errors import UserError
from isospace.losses.contrastive import nt_xent
from isospace.objectives import auxiliaries, decoders
from isospace.objectives.base import Objective, Paper
from isospace.system.settings import settings
from isospace.views import NO_TARGET, Edit, Ids, Read, View, Views, Vocabulary

MASKED = 0.15
"""The share of an anchor's tokens to guess."""


@dataclass(frozen=True)
class Sampling:
    """The sampling of spans from a document (DeCLUTR, section 3.1, as released).

    `shortest` and `longest` count a span's tokens without the special ones.
    """

    anchors: int = 2
    positives: int = 2
    shortest: int = 32
    longest: int = 512

    @property
    def needs(self) -> int:
        return 2 * self.anchors * self.longest

    def draw(self, n: int, random: np.random.Generator) -> tuple[list[slice], list[list[slice]]]:
        """Draw the anchors of a document of `n` tokens, `needs` or more, and positives of each."""
        blocks = list(range(0, n - self.longest + 1, self.longest))
        anchors = [self._anchor(blocks, self.anchors - i, random) for i in range(self.anchors)]
        positives = [
            [self._positive(anchor, n, random) for _ in range(self.positives)] for anchor in anchors
        ]
        return anchors, positives

    def _length(self, share: float, longest: int) -> int:
        return int(share * (longest - self.shortest) + self.shortest)

    def _anchor(self, blocks: list[int], left: int, random: np.random.Generator) -> slice:
        """Draw one of the `left` anchors still due; remove its block and the neighbours."""
        length = self._length(random.beta(4, 2), self.longest)
        choices = range(len(blocks))
        if len(blocks) // left < left:  # only the ends surely leave room for the rest
            choices = range(0, len(blocks), max(1, len(blocks) - 1))
        place = choices[int(random.integers(len(choices)))]
        low = blocks[place]
        del blocks[max(0, place - 1) : place + 2]
        start = int(random.integers(low, low + self.longest - length + 1))
        return slice(start, start + length)

    def _positive(self, anchor: slice, n: int, random: np.random.Generator) -> slice:
        """Draw a span that overlaps or touches the anchor."""
        share = random.beta(2, 4)
        length = self._length(share, self.longest)
        low, high = max(0, anchor.start - length), min(anchor.stop, n - length)
        start = int(random.integers(low, high + 1))
        return slice(start, start + length)


@dataclass(frozen=True)
class Span(Edit):
    """A span of the text, inside its special tokens: an anchor, or a positive of this anchor."""

    sampling: Sampling = field(default_factory=Sampling)
    anchor: int = 0
    positive: int | None = None
    masked: float = 0.0
    """Share of the tokens to guess: 8 of 10 are masked, one is a random token, one stays (BERT)."""
    targets: bool = False
    """Return the original tokens where they are guessed, and `NO_TARGET` at other places."""

    @property
    def needs_mask(self) -> bool:  # type: ignore[override]
        return self.masked > 0

    @property
    def needs(self) -> int:  # type: ignore[override]
        return self.sampling.needs

    def __call__(self, ids: Ids, random: np.random.Generator, vocabulary: Vocabulary) -> Ids:
        """Return the span's tokens, some of them masked, or the targets."""
        inner = vocabulary.inner(ids)
        words = ids[inner]
        anchors, positives = self.sampling.draw(len(words), random)
        span = anchors[self.anchor]
        if self.positive is not None:
            span = positives[self.anchor][self.positive]
        edited = np.concatenate([ids[: inner.start], words[span], ids[inner.stop :]])
        targets = np.full(len(edited), NO_TARGET)
        if self.masked:
            # Of its own for each anchor, which so far have drawn the same.
            own = np.random.default_rng([self.anchor, int(random.integers(2**32))])
            guessed = inner.start + np.flatnonzero(own.random(span.stop - span.start) < self.masked)
            targets[guessed] = edited[guessed]
            fate = own.random(len(guessed))
            drawn = own.integers(vocabulary.size, size=len(guessed))
            edited[guessed[fate < 0.9]] = drawn[fate < 0.9]
            edited[guessed[fate < 0.8]] = vocabulary.mask_id
        return targets if self.targets else edited


@settings
class DeCLUTR(Objective):
    r"""NT-Xent of spans of documents with the mean of spans near them, and masked tokens to guess.

    $$\mathcal{L} = \mathrm{NTXent}_\tau\big(e(s_k), \tfrac{1}{P} \textstyle\sum_p e(s_{k+p})\big)
        + \lambda\, \mathcal{L}_{\mathrm{MLM}}$$

    $s_k$: the anchors of all documents, A of each, at least $L_{max}$ tokens apart; $s_{k+p}$: the
    P positives of an anchor, which overlap or touch it, averaged without normalising. Other anchors
    of a document are negatives too. Relations: `consert` has the same loss on changed embeddings.
    Lengths are drawn as released, from Beta(4, 2) for anchors and Beta(2, 4) for positives, between
    $L_{min}$ and $L_{max}$. Anchors are embedded with their 15 % masking. With masking all spans
    are the mean of their tokens, as in the paper; without, the encoder's own pooling. The paper
    starts with a pre-trained masked-language head; sentence encoders come without, so here it
    begins anew.
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
    """L_max, spans have fewer tokens, and documents 2 A L_max or more; set less for paragraphs."""
    mlm_weight: NonNegativeFloat = 1.0
    """lambda, of guessing 15 % of the anchors' tokens; 0 leaves it out."""

    paper: ClassVar[Paper] = Paper("giorgi-etal-2021-declutr")
    one_text_only: ClassVar[bool] = True
    without_mask: ClassVar[str] = "`mlm_weight` 0"

    def __post_init__(self) -> None:
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
        return Sampling(self.anchors, self.positives, self.min_span, self.max_span)

    @property
    def _anchors(self) -> list[Span]:
        masked = MASKED if self.mlm_weight else 0.0
        return [Span("spans", self._sampling, i, masked=masked) for i in range(self.anchors)]

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        limit = encoder.max_length
        if limit is not None and self.max_span + 2 > limit:
            raise ValueError(
                f"`max_span` {self.max_span}: the encoder reads only {limit - 2} tokens"
            )
        if not self.mlm_weight:
            return {}
        return {"masked_language": decoders.MaskedHead(encoder.word_embeddings, encoder.dim)}

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        vectors, (_, batch, dim) = views.projected, views.projected.shape
        positives = vectors[self.anchors :].view(self.anchors, self.positives, batch, dim)
        contrast = nt_xent(
            vectors[: self.anchors].flatten(0, 1),
            positives.transpose(1, 2).flatten(0, 1).mean(1),
            self.temperature,
        )
        if not self.mlm_weight:
            return {"nt_xent": contrast}
        tokens = [views.tokens[i] for i in range(self.anchors)]
        guessed = views.auxiliaries["masked_language"].loss(tokens, views.inputs)
        return {"nt_xent": contrast, "masked_language": self.mlm_weight * guessed}
