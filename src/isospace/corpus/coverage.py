"""Does a tokenizer know the language of a text? And how long is the text to it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

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


@dataclass(frozen=True)
class Coverage:
    """What a tokenizer makes of a sample of texts.

    Attributes:
        unknown: share of the tokens that are unknown, 0 to 1.
        per_word: tokens a word; in scripts without spaces a character is a word.
        lengths: quantile -> tokens of a text with the special ones, of 0.5, 0.95 and 1.
        same: whether all texts, two or more, are the same tokens, so that an encoder sees no
            difference.
    """

    unknown: float
    per_word: float
    lengths: dict[float, int]
    same: bool

    @property
    def warning(self) -> str | None:
        """Why the encoder cannot be good at this text, where that is so."""
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


def coverage(encoder: Encoder, texts: Sequence[str]) -> Coverage:
    """What an encoder's tokenizer makes of one text or more."""
    rows = encoder.token_ids(texts, whole=True)
    special = encoder.tokenizer.num_special_tokens_to_add()
    sizes = np.array([len(row) for row in rows])
    unknown = encoder.tokenizer.unk_token_id
    words = sum(max(1, count_words(text)) for text in texts)
    tokens = max(1, int(sizes.sum()) - special * len(rows))
    return Coverage(
        sum(row.count(unknown) for row in rows) / tokens if unknown is not None else 0.0,
        tokens / words,
        {share: int(np.quantile(sizes, share, method="higher")) for share in (0.5, 0.95, 1.0)},
        len(rows) > 1 and all(row == rows[0] for row in rows),
    )
