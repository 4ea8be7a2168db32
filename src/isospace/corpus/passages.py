"""Passages: the paragraphs of a document, joined or cut at sentence ends to a size.

The size counts words, not the tokens of an encoder, so that encoders can be compared on the same
passages. In scripts without spaces a character is a word, which is about what it is to tokenizers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import ceil

from isospace.corpus.dedup import UNSPACED
from isospace.corpus.documents import Document
from isospace.corpus.lines import clean, folded
from isospace.errors import UserError

_WORD = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}]+")

LONGEST_WORD = 40
"""Characters a word: a passage of more than that, all in all, is no text."""

Split = Callable[[str], list[str]]
"""A paragraph -> its sentences."""


def count_words(text: str) -> int:
    """Count the words of a text.

    >>> count_words("a cat sat."), count_words("猫が座った。")
    (3, 6)
    """
    return len(text.split()) if text.isascii() else len(_WORD.findall(text))


def _length(text: str) -> int:
    """Count words of LONGEST_WORD characters at most, so that what is no text stands alone."""
    return max(count_words(text), len(text) // LONGEST_WORD + 1)


def passages(paragraphs: Iterable[str], size: int, split: Split) -> Iterator[str]:
    """Make passages of at most `size` words from paragraphs under one heading.

    Nothing is left out. A paragraph of up to `size` words is not cut; one of less than half of that
    is joined to its neighbours while they fit.

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
    """Yield parts of about `aim` words that end with sentences, never of more than `size`."""
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
    """Cut a sentence that is longer than a passage, at blanks or between characters."""
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
"""A language of a smaller share of the texts is as likely a mistake of the detector."""


_LONG = 5_000
"""Characters from which a paragraph goes to sentencex in stretches: it takes time by the square of
how many sentences follow each other without a blank."""


_STRETCH = re.compile(rf"(?s).{{1,{_LONG}}}[。！？](?![」』）”’])|.+")


def document_sentences(text: str, language: str = "en") -> list[str]:
    """Split a paragraph of running text in any language into sentences, by sentencex.

    A language that sentencex does not know is cut as a related one.

    >>> document_sentences("Dr. Hill sets sys.path. It works!")
    ['Dr. Hill sets sys.path.', 'It works!']
    >>> document_sentences("名前はまだ無い。どこで生れたか。", "ja")
    ['名前はまだ無い。', 'どこで生れたか。']
    """
    import sentencex

    sentences: list[str] = []
    stretches = [text] if len(text) <= _LONG else _STRETCH.findall(text)
    for piece in chain.from_iterable(sentencex.segment(language, part) for part in stretches):
        # A full stop with no space after it is within a name: sys._path.
        if sentences and sentences[-1][-1:] in (".", "!", "?"):
            sentences[-1] += piece
        elif piece.strip():
            sentences.append(piece)
    return [sentence.strip() for sentence in sentences]


def language_of(text: str) -> str:
    """Return the ISO code of the language that a text seems to be in.

    By py3langid (Barbaresi; the model of Lui and Baldwin's langid.py, ACL 2012), which knows 97
    languages and is unsure of texts of a few words.

    >>> language_of("Eine Katze sitzt auf dem Dach und schaut in den Garten.")
    'de'
    """
    import py3langid

    return str(py3langid.classify(text)[0])


def check_language(code: str) -> None:
    """Refuse what `language_of` never gives: its sentences would be told by another's rules.

    Raises:
        UserError: naming the codes.
    """
    import py3langid

    known = sorted(str(name) for name, _ in py3langid.rank(""))
    if code not in known:
        raise UserError(f"`language` {code}: expected one of {', '.join(known)}")


def languages(texts: Iterable[str]) -> dict[str, float]:
    """Return ISO code -> share of the texts, the largest first, without rare ones."""
    found = Counter(map(language_of, texts))
    total = sum(found.values())
    return {name: n / total for name, n in found.most_common() if n >= FEW * total}


def passages_of(
    document: Document, words: int | None, language: str | None = None
) -> Iterator[tuple[int, str]]:
    """Yield (number of the section, clean passage) of a document, in order.

    `words` is the most of a passage; with `None` paragraphs stay as they are. Sentences end as in
    `language`, by default the document's, else as each paragraph looks.
    """
    language = language or document.language

    def sentences(paragraph: str) -> list[str]:
        return document_sentences(paragraph, language or language_of(paragraph))

    for number, section in enumerate(document.sections):
        texts: Iterable[str] = filter(None, map(clean, section.paragraphs))
        for passage in texts if words is None else passages(texts, words, sentences):
            yield number, passage
