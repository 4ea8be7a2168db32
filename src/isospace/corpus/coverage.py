"""Does a tokenizer know the language and characters of a text? How long is the text to it?"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.passages import count_words

if TYPE_CHECKING:
    from isospace.encoders.encoder import Encoder

MANY_UNKNOWN = 0.03
"""Share of unknown tokens from which a tokenizer was not made for a text."""
MANY_PIECES = 2.5
"""Tokens a word from which a tokenizer spells a text instead of reading it.

That of minilm, which is English, makes 1.3 of a word of docstrings and 1.5 of English man pages, of
German ones 2.9.
"""
_NAMED = 8  # characters, of those that are unknown


@dataclass(frozen=True)
class Coverage:
    """What a tokenizer makes of a sample of texts.

    Attributes:
        unknown: share of the tokens that are unknown, 0 to 1.
        per_word: tokens a word; in scripts without spaces a character is a word.
        lengths: quantile -> tokens of a text with the special ones, of 0.5, 0.95 and 1.
        same: whether all texts, two or more, are the same tokens, so that an encoder sees no
            difference.
        characters: signs and other unusual characters of unknown words, the most frequent first.
        by_characters: share of the tokens that are unknown because of these, 0 to 1.
    """

    unknown: float
    per_word: float
    lengths: dict[float, int]
    same: bool
    characters: tuple[str, ...] = ()
    by_characters: float = 0.0

    @property
    def warning(self) -> str | None:
        """Why the encoder cannot be good at this text, where that is so."""
        unknown = f"{100 * self.unknown:.0f} % of the tokens are unknown to it"
        if self.unknown - self.by_characters > MANY_UNKNOWN:
            what = unknown
        elif self.per_word > MANY_PIECES:
            what = f"it needs {self.per_word:.1f} tokens a word"
        elif self.unknown > MANY_UNKNOWN:
            names = [_named(sign) for sign in self.characters[:_NAMED]]
            more = ", ..." if len(self.characters) > _NAMED else ""
            return (
                f"the encoder's tokenizer lacks characters of this text: {', '.join(names)}{more}. "
                f"{unknown}. Replace these characters, or choose an encoder that knows them "
                "(`model`)"
            )
        else:
            return None
        return (
            f"the encoder's tokenizer was not made for this text: {what}. Start from an encoder "
            "that was trained on the language (`model`)"
        )


def quantiles(
    sizes: Sequence[int] | NDArray[np.int64], shares: Iterable[float]
) -> dict[float, int]:
    """Return for each share the least size that so many of the texts do not exceed.

    >>> quantiles([6, 50], (0.5, 0.95))
    {0.5: 6, 0.95: 50}
    """
    return {share: int(np.quantile(sizes, share, method="inverted_cdf")) for share in shares}


def coverage(encoder: Encoder, texts: Sequence[str]) -> Coverage:
    """What an encoder's tokenizer makes of one text or more."""
    rows = encoder.tokens.ids(texts, whole=True)
    special = encoder.tokenizer.num_special_tokens_to_add()
    sizes = np.array([len(row) for row in rows])
    unknown = encoder.tokenizer.unk_token_id
    words = sum(max(1, count_words(text)) for text in texts)
    tokens = max(1, int(sizes.sum()) - special * len(rows))
    counts = [0 if unknown is None else row.count(unknown) for row in rows]
    by_characters, characters = _unknown_characters(
        encoder, [text for text, count in zip(texts, counts, strict=True) if count]
    )
    return Coverage(
        sum(counts) / tokens,
        tokens / words,
        quantiles(sizes, (0.5, 0.95, 1.0)),
        len(rows) > 1 and all(row == rows[0] for row in rows),
        characters,
        by_characters / tokens,
    )


def _unknown_characters(encoder: Encoder, texts: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """Return how many tokens are unknown because of unusual characters, and which these are.

    A word without its unusual characters says whether these are why it is unknown.
    """

    def unknown(words: Sequence[str]) -> list[int]:
        rows = encoder.tokens.ids(words, whole=True) if words else []
        return [row.count(encoder.tokenizer.unk_token_id) for row in rows]

    words = Counter(word for text in texts for word in text.split())
    odd = {word: [*filter(_is_odd, word)] for word in words if any(map(_is_odd, word))}
    usual = ["".join(sign for sign in word if not _is_odd(sign)) for word in odd]
    signs = sorted(set().union(*odd.values()))
    lacking = {sign for sign, count in zip(signs, unknown(signs), strict=True) if count}
    total, characters = 0, Counter[str]()
    for word, all_of, left in zip(odd, unknown([*odd]), unknown(usual), strict=True):
        if all_of > left:
            total += words[word] * (all_of - left)
            blamed = lacking.intersection(odd[word]) or odd[word]
            characters.update(dict.fromkeys(blamed, words[word]))
    return total, tuple(sorted(characters, key=lambda sign: (-characters[sign], sign)))


def _is_odd(sign: str) -> bool:
    """Whether a character is no letter, mark or digit of a language, as it is usually written."""
    usual = sign.isascii() or unicodedata.category(sign)[0] in "LMN"
    return not usual or unicodedata.normalize("NFKC", sign) != unicodedata.normalize("NFC", sign)


def _named(sign: str) -> str:
    """Return a character with its number; the number alone where it cannot be printed."""
    return f"{sign} (U+{ord(sign):04X})" if sign.isprintable() else f"U+{ord(sign):04X}"
