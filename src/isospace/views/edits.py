"""Edits of a sentence's tokens: repetition, deletion, masking, templates, shuffling."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isospace.views.view import Edit, Ids, Vocabulary


@dataclass(frozen=True)
class Repeat(Edit):
    """Doubles some tokens in place (ESimCSE, section 3.1, as released).

    Attributes:
        rate: at most this share of the tokens, the special ones counted, and at most 9; the bound
            itself is not drawn.
    """

    rate: float = 0.32

    def __call__(self, ids: Ids, random: np.random.Generator, vocabulary: Vocabulary) -> Ids:
        """Double as many distinct tokens as are drawn."""
        bound = self.bound(len(ids))
        count = int(random.integers(bound)) if bound else 0
        places = np.arange(len(ids))[vocabulary.inner(ids)]
        return self.doubled(ids, random.permutation(places)[:count])

    def bound(self, length: int) -> int:
        """Fewer than so many of `length` tokens are doubled; 0: none."""
        return min(10, int(self.rate * length))

    def adds(self, ids: Ids, vocabulary: Vocabulary) -> int:
        """One less than the bound."""
        return max(0, self.bound(len(ids)) - 1)

    @staticmethod
    def doubled(ids: Ids, places: Ids) -> Ids:
        """The tokens at these places twice, one after the other."""
        return np.insert(ids, places, ids[places])

    def __str__(self) -> str:
        return "with repeated words"


@dataclass(frozen=True)
class DeleteWords(Edit):
    """Leaves out whole words, each for itself, but never all (TSDAE, section 3).

    Attributes:
        rate: chance of a word to be left out.
    """

    rate: float = 0.6

    def __call__(self, ids: Ids, random: np.random.Generator, vocabulary: Vocabulary) -> Ids:
        """Draw what stays."""
        inner, words = vocabulary.inner(ids), vocabulary.words(ids)
        if not len(words):
            return ids
        count = int(words[-1]) + 1
        kept = self.kept(random.random(count), int(random.integers(count)))
        return np.concatenate([ids[: inner.start], ids[inner][kept[words]], ids[inner.stop :]])

    def kept(self, draws: NDArray[np.float64], fallback: int) -> NDArray[np.bool_]:
        """Which words stay: `draws` (word,) are uniform; `fallback` stays if no other does."""
        kept = draws > self.rate
        if not kept.any():
            kept[fallback] = True
        return kept

    def __str__(self) -> str:
        return f"with {self.rate:.0%} of words deleted"


@dataclass(frozen=True)
class MaskTokens(Edit):
    """Replaces tokens by the mask token, each for itself (masked language modelling).

    Attributes:
        rate: chance of a token between the special ones to be masked.
    """

    rate: float = 0.15
    needs_mask = True

    def __call__(self, ids: Ids, random: np.random.Generator, vocabulary: Vocabulary) -> Ids:
        """Draw what is masked."""
        inner = vocabulary.inner(ids)
        edited = ids.copy()
        edited[inner][random.random(inner.stop - inner.start) < self.rate] = vocabulary.mask_id
        return edited

    def __str__(self) -> str:
        return f"with {self.rate:.0%} of tokens masked"


@dataclass(frozen=True)
class MaskSpan(Edit):
    """Replaces one run of tokens by mask tokens, at a place that is drawn (ArcCSE).

    Of spans of one `stream` a longer one holds every shorter one, in sentences of any length.

    Attributes:
        share: of the tokens between the special ones, rounded up to whole tokens.
    """

    share: float = 0.2
    needs_mask = True

    def __call__(self, ids: Ids, random: np.random.Generator, vocabulary: Vocabulary) -> Ids:
        """Draw where the span lies."""
        inner = vocabulary.inner(ids)
        edited = ids.copy()
        edited[inner][self.span(inner.stop - inner.start, random.random())] = vocabulary.mask_id
        return edited

    def span(self, tokens: int, place: float) -> slice:
        """The span among so many tokens; `place`, in [0, 1), goes from the first to the last."""
        size = math.ceil(self.share * tokens)
        start = int(place * (tokens - size + 1))
        return slice(start, start + size)

    def __str__(self) -> str:
        return f"with a span of {self.share:.0%} masked"


@dataclass(frozen=True)
class Template(Edit):
    """Puts text around the sentence (PromptBERT, section 3).

    Attributes:
        before: in front of the sentence; [MASK] is the tokenizer's own mask token, here and behind.
        after: behind it.
        empty: leaves the sentence out, and its positions free.
    """

    before: str = ""
    after: str = ""
    empty: bool = False

    @property
    def needs_mask(self) -> bool:  # type: ignore[override]
        """Where the template holds one."""
        return "[MASK]" in self.before + self.after

    @property
    def moves(self) -> bool:  # type: ignore[override]
        """Where the sentence is left out."""
        return self.empty

    def __call__(self, ids: Ids, random: np.random.Generator, vocabulary: Vocabulary) -> Ids:
        """The template's tokens inside the special ones.

        A mask token that a text spells out is left out: it is not the one that is read.
        """
        inner = vocabulary.inner(ids)
        words = ids[:0] if self.empty else ids[inner]
        if self.needs_mask:
            words = words[words != vocabulary.mask]
        before, after = self.parts(vocabulary)
        return np.concatenate([ids[: inner.start], before, words, after, ids[inner.stop :]])

    def parts(self, vocabulary: Vocabulary) -> tuple[Ids, Ids]:
        """Token ids in front of the sentence and behind it."""
        return _encoded(self.before, vocabulary), _encoded(self.after, vocabulary)

    def positions(self, ids: Ids, vocabulary: Vocabulary) -> Ids:
        """As if the sentence were there."""
        inner = vocabulary.inner(ids)
        start = inner.start + len(self.parts(vocabulary)[0])
        places = np.arange(len(ids) + self.adds(ids, vocabulary))
        return np.delete(places, slice(start, start + inner.stop - inner.start))

    def adds(self, ids: Ids, vocabulary: Vocabulary) -> int:
        """The tokens of the template."""
        return sum(map(len, self.parts(vocabulary)))

    def __str__(self) -> str:
        return "with the template alone" if self.empty else "in a template"


@dataclass(frozen=True)
class _OfWords(Edit):
    """Of the tokens between the special ones."""

    def __call__(self, ids: Ids, random: np.random.Generator, vocabulary: Vocabulary) -> Ids:
        """Edit what lies between the special tokens."""
        inner = vocabulary.inner(ids)
        words = self.edited(ids[inner], random, len(ids))
        return np.concatenate([ids[: inner.start], words, ids[inner.stop :]])

    @abstractmethod
    def edited(self, words: Ids, random: np.random.Generator, length: int) -> Ids:
        """(token,) -> (token',), of a sentence of `length` tokens with the special ones."""


@dataclass(frozen=True)
class Shuffle(_OfWords):
    """The tokens in an order that is drawn (PCL)."""

    def edited(self, words: Ids, random: np.random.Generator, length: int) -> Ids:
        """Permute."""
        return words[random.permutation(len(words))]

    def __str__(self) -> str:
        return "shuffled"


@dataclass(frozen=True)
class Reverse(_OfWords):
    """The tokens from the last to the first (PCL)."""

    def edited(self, words: Ids, random: np.random.Generator, length: int) -> Ids:
        """Turn round."""
        return words[::-1]

    def __str__(self) -> str:
        return "reversed"


@dataclass(frozen=True)
class DeleteTokens(_OfWords):
    """Leaves out a fixed share of the tokens (PCL, as released).

    Attributes:
        rate: share of the tokens between the special ones, rounded.
    """

    rate: float = 0.2

    def edited(self, words: Ids, random: np.random.Generator, length: int) -> Ids:
        """Draw a token that is left, and leave out its first occurrence, as often as it takes."""
        for _ in range(round(self.rate * len(words))):
            words = self.without(words, int(random.choice(words)))
        return words

    @staticmethod
    def without(words: Ids, token: int) -> Ids:
        """The tokens without the first one that is `token`."""
        return np.delete(words, np.argmax(words == token))

    def __str__(self) -> str:
        return "with tokens deleted"


@dataclass(frozen=True)
class InsertTokens(_OfWords):
    """Inserts tokens of the sentence once more, anywhere in it (PCL, as released).

    Attributes:
        rate: share of the tokens between the special ones that is added, rounded.
        max_length: no sentence gets longer than that, in tokens with the special ones.
    """

    rate: float = 0.2
    max_length: int = 32

    def edited(self, words: Ids, random: np.random.Generator, length: int) -> Ids:
        """Draw a token and a place, as often as it takes."""
        for _ in range(self._count(len(words), length)):
            token = random.choice(words)
            words = np.insert(words, random.integers(len(words) + 1), token)
        return words

    def adds(self, ids: Ids, vocabulary: Vocabulary) -> int:
        """As many as it does add."""
        inner = vocabulary.inner(ids)
        return self._count(inner.stop - inner.start, len(ids))

    def _count(self, words: int, length: int) -> int:
        return max(0, min(round(self.rate * words), self.max_length - length))

    def __str__(self) -> str:
        return "with tokens repeated elsewhere"


def _encoded(text: str, vocabulary: Vocabulary) -> Ids:
    parts: list[int] = []
    for place, part in enumerate(text.split("[MASK]")):
        if place:
            parts.append(vocabulary.mask_id)
        parts += vocabulary.encode(part.rstrip()) if part.strip() else []
    return np.array(parts, dtype=np.int64)
