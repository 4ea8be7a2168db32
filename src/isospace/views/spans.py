"""Spans of a document: anchors far from each other, and positives near or within them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from isospace.views.view import NO_TARGET, Edit, Ids, Vocabulary

Strategy = Literal["free", "subsuming", "adjacent"]


@dataclass(frozen=True)
class Sampling:
    """The sampling of spans from a document (DeCLUTR, section 3.1, as released).

    Attributes:
        anchors: number of spans that are far from each other.
        positives: number of positives of each anchor.
        shortest: number of tokens of the shortest span, without the special ones.
        longest: number of tokens of the longest span.
        strategy: "free": a positive overlaps or touches its anchor; "subsuming": it lies within the
            anchor; "adjacent": it touches the anchor.
    """

    anchors: int = 2
    positives: int = 2
    shortest: int = 32
    longest: int = 512
    strategy: Strategy = "free"

    @property
    def needs(self) -> int:
        """Least number of tokens of a document."""
        return 2 * self.anchors * self.longest

    def draw(self, n: int, random: np.random.Generator) -> tuple[list[slice], list[list[slice]]]:
        """Draw the anchors of a document of `n` tokens, and the positives of each.

        Raises:
            ValueError: the document has fewer tokens than are needed.
        """
        if n < self.needs:
            raise ValueError(f"spans need a document of {self.needs} tokens; got {n}")
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
        share = random.beta(2, 4)
        if self.strategy == "subsuming":
            length = self._length(share, anchor.stop - anchor.start)
            start = int(random.integers(anchor.start, anchor.stop - length + 1))
        elif self.strategy == "adjacent":
            length = self._length(share, min(self.longest, max(anchor.start, n - anchor.stop)))
            before, behind = anchor.start - length, anchor.stop
            places = [before] * (before > 0) + [behind] * (behind + length <= n)
            start = places[int(random.integers(len(places)))] if places else 0
        else:
            length = self._length(share, self.longest)
            low, high = max(0, anchor.start - length), min(anchor.stop, n - length)
            start = int(random.integers(low, high + 1))
        return slice(start, start + length)


@dataclass(frozen=True)
class Span(Edit):
    """A span of the text, inside its special tokens.

    Views of one `stream` see one draw of all spans.

    Attributes:
        sampling: of all spans.
        anchor: number of the anchor.
        positive: number of its positive; `None`: the anchor itself.
        masked: share of the tokens to guess: 8 of 10 are masked, one is a random token, one stays
            (BERT's rule).
        targets: return the original tokens where they are guessed, and `NO_TARGET` at other places.
    """

    sampling: Sampling = field(default_factory=Sampling)
    anchor: int = 0
    positive: int | None = None
    masked: float = 0.0
    targets: bool = False
    whole = True

    @property
    def needs_mask(self) -> bool:  # type: ignore[override]
        """True where tokens are masked."""
        return self.masked > 0

    @property
    def needs(self) -> int:  # type: ignore[override]
        """The tokens that the document must have."""
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
