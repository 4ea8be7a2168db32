"""Edits of a sentence's tokens, and perturbations of its embeddings before the first layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from isospace.views import Edit, Ids, Perturbation, Vocabulary


@dataclass(frozen=True)
class Repeat(Edit):
    """Repetition in place of distinct tokens, whose number is drawn (ESimCSE, as released).

    The number is below the `rate` of all tokens, special tokens included, and below 10.
    """

    rate: float = 0.32

    def _edited(self, words: Ids, random: Generator, vocabulary: Vocabulary, length: int) -> Ids:
        bound = self.bound(length)
        count = int(random.integers(bound)) if bound else 0
        return self.doubled(words, random.permutation(len(words))[:count])

    def bound(self, length: int) -> int:
        """Return a number that the number of repeated tokens stays below."""
        return min(10, int(self.rate * length))

    def adds(self, ids: Ids, vocabulary: Vocabulary) -> int:
        """Return one less than the bound."""
        return max(0, self.bound(len(ids)) - 1)

    @staticmethod
    def doubled(ids: Ids, places: Ids) -> Ids:
        """Double the tokens at these places."""
        return np.insert(ids, places, ids[places])


@dataclass(frozen=True)
class DeleteWords(Edit):
    """Deletion of words with a probability, `rate`, but never of all (TSDAE, section 3)."""

    rate: float = 0.6

    def _edited(self, words: Ids, random: Generator, vocabulary: Vocabulary, length: int) -> Ids:
        if not len(words):
            return words
        numbers = vocabulary.word_numbers(words)
        count = int(numbers[-1]) + 1
        kept = self.kept(random.random(count), int(random.integers(count)))
        return words[kept[numbers]]

    def kept(self, draws: NDArray[np.float64], fallback: int) -> NDArray[np.bool_]:
        """Return true for words to keep, by uniform `draws`; keep `fallback` if all would go."""
        kept = draws > self.rate
        if not kept.any():
            kept[fallback] = True
        return kept


@dataclass(frozen=True)
class MaskTokens(Edit):
    """Masking of tokens between the special ones, each with the probability `rate`."""

    rate: float = 0.3
    needs_mask = True

    def _edited(self, words: Ids, random: Generator, vocabulary: Vocabulary, length: int) -> Ids:
        return np.where(random.random(len(words)) < self.rate, vocabulary.mask_id, words)


@dataclass(frozen=True)
class MaskSpan(Edit):
    """Masking of one run of tokens at a random place (ArcCSE).

    It has a `share` of the tokens between the special ones, rounded up to whole tokens. With one
    `stream` a longer span holds every shorter one, in sentences of any length.
    """

    share: float = 0.2
    needs_mask = True

    def _edited(self, words: Ids, random: Generator, vocabulary: Vocabulary, length: int) -> Ids:
        edited = words.copy()
        edited[self.span(len(words), random.random())] = vocabulary.mask_id
        return edited

    def span(self, tokens: int, place: float) -> slice:
        """Return the span of a number of tokens; `place` is in [0, 1)."""
        size = math.ceil(self.share * tokens)
        start = int(place * (tokens - size + 1))
        return slice(start, start + size)


@dataclass(frozen=True)
class Template(Edit):
    """A text around the sentence, with [MASK] for the mask token (PromptBERT, section 3).

    `empty` leaves out the sentence, with its positions free.
    """

    before: str = ""
    after: str = ""
    empty: bool = False

    @property
    def needs_mask(self) -> bool:  # type: ignore[override]
        """True if the template has a mask token."""
        return "[MASK]" in self.before + self.after

    @property
    def moves(self) -> bool:  # type: ignore[override]
        """True if the sentence is left out."""
        return self.empty

    def _edited(self, words: Ids, random: Generator, vocabulary: Vocabulary, length: int) -> Ids:
        before, after = self.parts(vocabulary)
        if self.needs_mask:  # the template's is read, so one in the sentence is left out
            words = words[words != vocabulary.mask]
        return np.concatenate([before, words[:0] if self.empty else words, after])

    def parts(self, vocabulary: Vocabulary) -> tuple[Ids, Ids]:
        """Return the token ids before and after the sentence."""
        return _encoded(self.before, vocabulary), _encoded(self.after, vocabulary)

    def positions(self, ids: Ids, vocabulary: Vocabulary) -> Ids:
        """Return positions that leave room for the sentence."""
        inner = vocabulary.inner(ids)
        start = inner.start + len(self.parts(vocabulary)[0])
        places = np.arange(len(ids) + self.adds(ids, vocabulary))
        return np.delete(places, slice(start, start + inner.stop - inner.start))

    def adds(self, ids: Ids, vocabulary: Vocabulary) -> int:
        """Return the number of the template's tokens."""
        return sum(map(len, self.parts(vocabulary)))


@dataclass(frozen=True)
class Shuffle(Edit):
    """A random order of the tokens (PCL)."""

    def _edited(self, words: Ids, random: Generator, vocabulary: Vocabulary, length: int) -> Ids:
        return words[random.permutation(len(words))]


@dataclass(frozen=True)
class Reverse(Edit):
    """The reversed order of the tokens (PCL)."""

    def _edited(self, words: Ids, random: Generator, vocabulary: Vocabulary, length: int) -> Ids:
        return words[::-1]


@dataclass(frozen=True)
class DeleteTokens(Edit):
    """Deletion of a share, `rate`, of the tokens between the special ones (PCL, as released).

    Of each drawn token the first occurrence is deleted.
    """

    rate: float = 0.2

    def _edited(self, words: Ids, random: Generator, vocabulary: Vocabulary, length: int) -> Ids:
        for _ in range(round(self.rate * len(words))):
            words = np.delete(words, np.argmax(words == random.choice(words)))
        return words


@dataclass(frozen=True)
class InsertTokens(Edit):
    """Insertion of a share, `rate`, of the own tokens at random places (PCL, as released).

    With the special ones, a sentence gets at most `max_length` tokens.
    """

    rate: float = 0.2
    max_length: int = 32

    def _edited(self, words: Ids, random: Generator, vocabulary: Vocabulary, length: int) -> Ids:
        for _ in range(self._count(len(words), length)):
            token = random.choice(words)
            words = np.insert(words, random.integers(len(words) + 1), token)
        return words

    def adds(self, ids: Ids, vocabulary: Vocabulary) -> int:
        """Return the number of tokens that are added."""
        inner = vocabulary.inner(ids)
        return self._count(inner.stop - inner.start, len(ids))

    def _count(self, words: int, length: int) -> int:
        return max(0, min(round(self.rate * words), self.max_length - length))


@dataclass(frozen=True)
class ShuffledPositions(Perturbation):
    """A permutation of the tokens' positions, special tokens too (ConSERT, section 3.3)."""

    def positions(self, length: int, random: Generator) -> NDArray[np.int64]:
        """Return a permutation."""
        return random.permutation(length)


@dataclass(frozen=True)
class CutOff(Perturbation):
    """Setting a share, `rate`, of the embeddings to 0 (ConSERT, section 3.3).

    The rest is not scaled up. "features" are 0 at all tokens, "tokens" in all features.
    """

    of: Literal["features", "tokens", "elements"] = "features"
    rate: float = 0.2

    def kept(self, length: int, dim: int, random: Generator) -> NDArray[np.bool_]:
        """Return a mask (1, dim), (length, 1) or (length, dim)."""
        shape = {"features": (1, dim), "tokens": (length, 1), "elements": (length, dim)}[self.of]
        size = shape[0] * shape[1]
        kept = np.ones(size, dtype=bool)
        kept[random.permutation(size)[: int(size * self.rate)]] = False
        return kept.reshape(shape)


def _encoded(text: str, vocabulary: Vocabulary) -> Ids:
    parts: list[int] = []
    for place, part in enumerate(text.split("[MASK]")):
        if place:
            parts.append(vocabulary.mask_id)
        parts += vocabulary.encode(part.rstrip()) if part.strip() else []
    return np.array(parts, dtype=np.int64)
