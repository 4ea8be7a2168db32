"""An overview of a corpus: what was read and how, before anything is trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from isospace.corpus.build import FEWEST_PAIRS
from isospace.corpus.corpus import Corpus
from isospace.corpus.examples import evenly
from isospace.corpus.passages import count_words
from isospace.corpus.relations import FEW_PAIRS, RELATIONS

if TYPE_CHECKING:
    from isospace.encoders.encoder import Encoder


SAMPLE = 500
EXAMPLES = 3


def sample(corpus: Corpus) -> list[str]:
    """Return evenly spaced passages of a corpus."""
    passages = corpus.passages
    return [corpus[passages[place]] for place in evenly(len(passages), SAMPLE)]


@dataclass(frozen=True)
class RelationPairs:
    """Numbers of the pairs of a relation to train on and held out, and some to train on."""

    train: int
    held_out: int
    examples: list[tuple[str, str]]


def relations(corpus: Corpus) -> dict[str, RelationPairs]:
    """Return relation -> its pairs; empty without documents."""
    related = corpus.related
    if related is None:
        return {}
    held = related.counts(held=True)
    found = {}
    for name in RELATIONS:
        pairs = related.to_train(name)
        places = evenly(len(pairs), EXAMPLES)
        examples = [(corpus[a], corpus[b]) for a, b in pairs[places].tolist()]
        found[name] = RelationPairs(len(pairs), held[name], examples)
    return found


def describe_pairs(corpus: Corpus) -> str:
    """Describe validation and test pairs; if they are halves of sentences, also give the reason."""
    pairs = corpus.pairs
    if not pairs.test:
        why = f"no relation of the text has {FEW_PAIRS} held-out pairs"
        if corpus.columns:
            why = (
                f"fewer than {FEWEST_PAIRS} rows that belong together can be held out with both "
                "texts"
            )
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
            f"the encoder's tokenizer was not made for this text: {what}. Choose a base "
            "model that was trained on the language (`model`)"
        )


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
        {
            share: int(np.quantile(sizes, share, method="inverted_cdf"))
            for share in (0.5, 0.95, 1.0)
        },
        len(rows) > 1 and all(row == rows[0] for row in rows),
    )
