"""Passages: the paragraphs of a document, joined or cut at sentence ends to a given size.

The size is in words, not in tokens of an encoder, so that encoders can be compared on the same
passages. In scripts without spaces each character is a word, as it is for most tokenizers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from isospace.corpus.formats import Document
from isospace.corpus.groups import UNSPACED
from isospace.corpus.lines import clean, folded

if TYPE_CHECKING:
    from isospace.encoders.encoder import Encoder

_WORD = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}]+")

LONGEST_WORD = 40
"""Largest mean number of characters a word; a passage that exceeds it is not text."""

Split = Callable[[str], list[str]]
"""A paragraph -> its sentences."""


def count_words(text: str) -> int:
    """Count the words of a text.

    >>> count_words("a cat sat."), count_words("猫が座った。")
    (3, 6)
    """
    return len(text.split()) if text.isascii() else len(_WORD.findall(text))


def _length(text: str) -> int:
    """Count words, or parts of LONGEST_WORD characters if there are more, as in data."""
    return max(count_words(text), len(text) // LONGEST_WORD + 1)


def passages(paragraphs: Iterable[str], size: int, split: Split) -> Iterator[str]:
    """Yield passages of at most `size` words from the paragraphs under one heading.

    A paragraph of up to half of `size` is joined to its neighbours while they fit.

    >>> few = ["One.", "Two words.", "Three words more.", "So I end."]
    >>> list(passages(few, 6, str.splitlines))
    ['One. Two words. Three words more.', 'So I end.']
    >>> list(passages(["I saw it. You did not. No."], 4, lambda text: [text]))  # one long sentence
    ['I saw it. You', 'did not. No.']
    """
    joined, length = "", 0
    for paragraph in paragraphs:
        more = _length(paragraph)
        if joined and (length + more > size or 2 * min(length, more) > size):
            yield joined
            joined, length = "", 0
        if more > size:
            yield from _cut(paragraph, ceil(more / ceil(more / size)), size, split)
        else:
            joined, length = f"{joined} {paragraph}".lstrip(), length + more
    if joined:
        yield joined


def _cut(paragraph: str, aim: int, size: int, split: Split) -> Iterator[str]:
    """Yield parts of about `aim` and at most `size` words that end at sentence ends."""
    part, length = "", 0
    for sentence in split(paragraph):
        more = _length(sentence)
        if part and length + more > size:
            yield part
            part, length = "", 0
        if more > size:
            *whole, sentence = _cut_anywhere(sentence, aim)
            yield from whole
            more = _length(sentence)
        part, length = folded(f"{part}\n{sentence}"), length + more
        if length >= aim:
            yield part
            part, length = "", 0
    if part:
        yield part


def _cut_anywhere(sentence: str, aim: int) -> Iterator[str]:
    """Cut a sentence that is longer than a passage, at blanks or inside unspaced text."""
    part: list[str] = []
    length = 0
    for word in sentence.split():
        starts = [match.start() for match in _WORD.finditer(word)]
        if part and length + len(starts) > aim:
            yield " ".join(part)
            part, length = [], 0
        *whole, last = range(0, len(starts), aim)
        for first in whole:
            yield word[starts[first] : starts[first + aim]]
        part.append(word[starts[last] :])
        length += len(starts) - last
    yield " ".join(part)


FEW = 0.02
"""Least share of the texts for a language to be reported; rarer ones may be detection errors."""
_LONG = 5_000
"""Longest paragraph, in characters, that sentencex gets whole. The time of sentencex grows with the
square of the number of consecutive sentences without a blank."""
_STRETCH = re.compile(rf"(?s).{{1,{_LONG}}}[。！？](?![」』）”’])|.+")


def document_sentences(text: str, language: str = "en") -> list[str]:
    """Split a paragraph of running text in any language into sentences, with sentencex.

    >>> document_sentences("Dr. Hill sets sys.path. It works!")
    ['Dr. Hill sets sys.path.', 'It works!']
    >>> document_sentences("名前はまだ無い。どこで生れたか。", "ja")
    ['名前はまだ無い。', 'どこで生れたか。']
    """
    import sentencex

    sentences: list[str] = []
    stretches = [text] if len(text) <= _LONG else _STRETCH.findall(text)
    for piece in chain.from_iterable(sentencex.segment(language, part) for part in stretches):
        # A full stop without a space after it is inside a name, such as sys._path.
        if sentences and sentences[-1][-1:] in (".", "!", "?"):
            sentences[-1] += piece
        elif piece.strip():
            sentences.append(piece)
    return [sentence.strip() for sentence in sentences]


def language_of(text: str) -> str:
    """Detect the language of a text by py3langid, and return its ISO code.

    It is unreliable for texts of a few words.

    >>> language_of("Eine Katze sitzt auf dem Dach und schaut in den Garten.")
    'de'
    """
    import py3langid

    return str(py3langid.classify(text)[0])


def languages(texts: Iterable[str]) -> dict[str, float]:
    """Return ISO code -> share of the texts, largest first, without rare languages."""
    found = Counter(map(language_of, texts))
    total = sum(found.values())
    return {name: n / total for name, n in found.most_common() if n >= FEW * total}


def passages_of(document: Document, words: int | None) -> Iterator[tuple[int, str]]:
    """Yield (number of the section, clean passage) of a document, in order.

    `words` is the largest size of a passage; with `None`, paragraphs stay as they are.
    """

    def sentences(paragraph: str) -> list[str]:
        return document_sentences(paragraph, document.language or language_of(paragraph))

    for number, section in enumerate(document.sections):
        texts: Iterable[str] = filter(None, map(clean, section.paragraphs))
        for passage in texts if words is None else passages(texts, words, sentences):
            yield number, passage


MANY_UNKNOWN = 0.03
"""With a larger share of unknown tokens, a tokenizer does not suit a text."""
MANY_PIECES = 2.5
"""With more tokens a word, a tokenizer does not suit a text.

That of minilm needs 1.5 tokens a word for English man pages, and 2.9 for German ones.
"""


@dataclass(frozen=True)
class Coverage:
    """Fit of a tokenizer to a sample of texts: share of unknown tokens (0 to 1), tokens a word."""

    unknown: float
    per_word: float
    lengths: dict[float, int]
    """Quantile (0.5, 0.95, 1) -> tokens of a text, with special tokens."""
    same: bool
    """True if two or more texts all have the same tokens."""

    @property
    def warning(self) -> str | None:
        """The reason why the encoder does not suit the text, or `None`."""
        if self.unknown > MANY_UNKNOWN:
            what = f"{100 * self.unknown:.0f} % of the tokens are unknown to it"
        elif self.per_word > MANY_PIECES:
            what = f"it needs {self.per_word:.1f} tokens a word"
        else:
            return None
        return (
            f"the encoder's tokenizer was not made for this text: {what}. Choose a base "
            "model that was trained on the language (`model`)"
        )


def coverage(encoder: Encoder, texts: Sequence[str]) -> Coverage:
    """Measure how well an encoder's tokenizer suits some texts."""
    rows = encoder.tokens.ids(texts, whole=True)
    special = encoder.tokenizer.num_special_tokens_to_add()
    sizes = np.array([len(row) for row in rows])
    unknown = encoder.tokenizer.unk_token_id
    words = sum(max(1, count_words(text)) for text in texts)
    tokens = max(1, int(sizes.sum()) - special * len(rows))
    count = 0 if unknown is None else sum(row.count(unknown) for row in rows)
    shares = (0.5, 0.95, 1.0)
    lengths = np.quantile(sizes, shares, method="inverted_cdf").astype(int).tolist()
    same = len(rows) > 1 and all(row == rows[0] for row in rows)
    return Coverage(count / tokens, tokens / words, dict(zip(shares, lengths, strict=True)), same)
