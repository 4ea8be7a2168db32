"""An overview of a corpus: what was read and how, before anything is trained on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.build import FEWEST_PAIRS
from isospace.corpus.corpus import Corpus
from isospace.corpus.examples import evenly
from isospace.corpus.passages import count_words, languages
from isospace.corpus.relations import (
    EVALUATION_RELATIONS,
    FEW_PAIRS,
    FIRST_REST,
    RELATIONS,
    Related,
)

if TYPE_CHECKING:
    from isospace.encoders.encoder import Encoder


SAMPLE = 500
EXAMPLES = 3
_ABSENT = {
    "title-passage": "no titles",
    "heading-section": "no headings",
    FIRST_REST: "no passage of two sentences or more",
    "summary-next": "no docstrings",
    "neighbours": "no document of two passages or more",
    "crops": "no passages",
}
"""Relation -> reason why documents have no such pair."""


@dataclass(frozen=True)
class RelationFound:
    """Counts and examples of one relation of the documents."""

    train: int
    held_out: int
    examples: list[tuple[str, str]]
    why: str


@dataclass(frozen=True)
class Overview:
    """Counts, languages and pairs of a corpus.

    Attributes:
        counts: what happened to the lines -> number of lines.
        files: format -> number of files, largest first.
        texts: number of sentences or passages that are kept.
        words: quantile (0.05, 0.5, 0.95, 1) -> words of a text, in a sample.
        languages: ISO code -> share of a sample.
        relations: name -> counts and examples of the relation.
        test_pairs: the validation and test pairs, in words.
    """

    counts: dict[str, int]
    files: dict[str, int]
    texts: int
    words: dict[float, int]
    languages: dict[str, float]
    relations: dict[str, RelationFound]
    test_pairs: str


def sample(corpus: Corpus) -> list[str]:
    """Return evenly spaced passages of a corpus."""
    passages = corpus.passages
    return [corpus[passages[place]] for place in evenly(len(passages), SAMPLE)]


def overview(corpus: Corpus, texts: Sequence[str] | None = None) -> Overview:
    """Return the overview of a corpus; `texts` are its sample if the caller already has one."""
    texts = sample(corpus) if texts is None else texts
    lengths = [count_words(text) for text in texts]
    shares = (0.05, 0.5, 0.95, 1.0)
    return Overview(
        corpus.counts,
        corpus.files,
        len(corpus.passages),
        quantiles(lengths, shares),
        languages(texts),
        _relations(corpus),
        describe_pairs(corpus),
    )


def _relations(corpus: Corpus) -> dict[str, RelationFound]:
    related = corpus.related
    if related is None:
        return {}
    held = related.counts(held=True)
    found = {}
    for name in RELATIONS:
        pairs = related.to_train(name)
        places = evenly(len(pairs), EXAMPLES)
        examples = [(corpus[a], corpus[b]) for a, b in pairs[places].tolist()]
        why = _why_missing(related, name, len(pairs), held[name])
        found[name] = RelationFound(len(pairs), held[name], examples, why)
    return found


def _why_missing(related: Related, name: str, train: int, held: int) -> str:
    """Return why documents have no pairs of a relation, or too few to measure with; else ""."""
    if not len(RELATIONS[name](related.structure)):
        return _ABSENT[name]
    if not train + held:
        return "each text is in several documents"
    if name in EVALUATION_RELATIONS and held < FEW_PAIRS:
        return f"fewer than {FEW_PAIRS} held-out pairs: too few to test with"
    return ""


def _why_no_pairs(corpus: Corpus) -> str:
    """Return the reason why a corpus without relations has no pairs."""
    if not corpus.columns:
        return "no text belongs to another"
    of_rows = f"rows of `columns` {' '.join(corpus.columns)}"
    if corpus.classes and len(corpus.held_out()) >= FEWEST_PAIRS:
        return f"no label says that the texts of {of_rows} belong together"
    return (
        f"of the {of_rows}, which belong together, fewer than {FEWEST_PAIRS} can be held out with "
        "both texts: a tenth at most, and none of their texts may be in a row that trains"
    )


def describe_pairs(corpus: Corpus) -> str:
    """Describe validation and test pairs; if they are halves of sentences, also give the reason."""
    pairs = corpus.pairs
    if not pairs.test:
        held = {} if corpus.related is None else corpus.related.counts(held=True)
        name = max(EVALUATION_RELATIONS, key=lambda relation: held.get(relation, 0))
        why = _why_no_pairs(corpus)
        if held.get(name):
            why = f"of {name} there are {held[name]:,} held-out pairs, {FEW_PAIRS} are needed"
        return f"halves of held-out sentences: {why}"
    name = pairs.relation or "natural pairs"
    if not pairs.split:
        return f"{name}: {len(pairs.test):,} pairs, which are the validation pairs too"
    return f"{name}: {len(pairs.dev):,} validation pairs, {len(pairs.test):,} test pairs"


MANY_UNKNOWN = 0.03
"""With a larger share of unknown tokens, a tokenizer does not suit a text."""
MANY_PIECES = 2.5
"""With more tokens a word, a tokenizer does not suit a text.

The English tokenizer of minilm needs 1.3 tokens a word for docstrings, 1.5 for English man pages,
and 2.9 for German man pages.
"""


@dataclass(frozen=True)
class Coverage:
    """Fit of a tokenizer to a sample of texts.

    Attributes:
        unknown: share of the tokens that are unknown, 0 to 1.
        per_word: tokens a word; in scripts without spaces a character is a word.
        lengths: quantile (0.5, 0.95, 1) -> tokens of a text, with special tokens.
        same: true if two or more texts all have the same tokens, so that an encoder sees no
            difference.
    """

    unknown: float
    per_word: float
    lengths: dict[float, int]
    same: bool

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
            f"the encoder's tokenizer was not made for this text: {what}. Start from an encoder "
            "that was trained on the language (`model`)"
        )


def quantiles(
    sizes: Sequence[int] | NDArray[np.int64], shares: Iterable[float]
) -> dict[float, int]:
    """Return for each share the smallest size that this share of the texts does not exceed.

    >>> quantiles([6, 50], (0.5, 0.95))
    {0.5: 6, 0.95: 50}
    """
    return {share: int(np.quantile(sizes, share, method="inverted_cdf")) for share in shares}


def coverage(encoder: Encoder, texts: Sequence[str]) -> Coverage:
    """Measure how well an encoder's tokenizer suits one or more texts."""
    rows = encoder.tokens.ids(texts, whole=True)
    special = encoder.tokenizer.num_special_tokens_to_add()
    sizes = np.array([len(row) for row in rows])
    unknown = encoder.tokenizer.unk_token_id
    words = sum(max(1, count_words(text)) for text in texts)
    tokens = max(1, int(sizes.sum()) - special * len(rows))
    count = 0 if unknown is None else sum(row.count(unknown) for row in rows)
    return Coverage(
        count / tokens,
        tokens / words,
        quantiles(sizes, (0.5, 0.95, 1.0)),
        len(rows) > 1 and all(row == rows[0] for row in rows),
    )
