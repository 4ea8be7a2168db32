"""Word vectors as a base model: the mean of a text's words, from a file in GloVe's text format.

`glove:FILE` names a vector file. A text without known words has the zero vector.

Each white-space token is looked up unchanged, then without outer punctuation, then in lower case
too. Stop words and single punctuation marks are dropped at each step. The code behind the published
numbers does the same (STS average 61.32, GloVe 840B.300d; Reimers & Gurevych 2019).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from statistics import mode
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, WordEmbeddings
from sentence_transformers.sentence_transformer.modules.tokenizer import (
    ENGLISH_STOP_WORDS,
    WhitespaceTokenizer,
    WordTokenizer,
)
from tokenizers import Tokenizer

from isospace.errors import UserError, first_line
from isospace.system.files import expanded

PREFIX = "glove:"

_PADDING = "PADDING_TOKEN"  # sentence-transformers' name for row 0
_FIRST = 100  # lines that tell the number of dimensions


class WordIds:
    """A word tokenizer with the methods that an encoder calls."""

    pad_token_id = 0
    unk_token_id = None
    """`None`: words without a vector are dropped."""
    all_special_ids: tuple[int, ...] = ()
    model_input_names = ("input_ids", "attention_mask")
    truncation_side = "right"

    @staticmethod
    def num_special_tokens_to_add() -> int:
        """Return 0."""
        return 0

    def __init__(self, words: WordTokenizer) -> None:
        self.words = words

    def __call__(
        self, texts: str | Sequence[str], max_length: int | None = None, **_: Any
    ) -> dict[str, list[Any]]:
        """Return the ids of a text, or of each text."""
        if isinstance(texts, str):
            [ids] = self.ids([texts])
            return {"input_ids": ids[:max_length]}
        return {"input_ids": [ids[:max_length] for ids in self.ids(texts)]}

    def ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Give the word ids of each text."""
        return map(self.words.tokenize, texts)

    def get_vocab(self) -> dict[str, Any]:
        """Return what determines the ids: the words and the tokenizer settings."""
        settings = vars(self.words).items()
        return {name: sorted(s) if isinstance(s, set) else s for name, s in settings}


class PieceIds(WordIds):
    """A tokenizer for static embeddings; a text gets no special tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.backend_tokenizer = tokenizer

    def ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Give the token ids of each text."""
        found = self.backend_tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return (own.ids for own in found)


def word_file(name: str) -> Path | None:
    """Return the file of a name glove:FILE; `None` for other names."""
    return expanded(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None


def word_model(
    words: Sequence[str],
    vectors: np.ndarray,
    stop_words: Iterable[str] = ENGLISH_STOP_WORDS,
) -> SentenceTransformer:
    """Return a model on the CPU that averages word vectors."""
    tokenizer = WhitespaceTokenizer([_PADDING, *words], stop_words=stop_words)
    rows = np.concatenate([np.zeros_like(vectors[:1]), vectors])
    pooling = Pooling(vectors.shape[1], "mean")
    return SentenceTransformer(modules=[WordEmbeddings(tokenizer, rows), pooling], device="cpu")


def read_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """Read words and their vectors, (word, dim) float32.

    A line has a word and its numbers, separated by spaces; a word may contain spaces. All lines
    have as many numbers as most of the first lines. A first line of two numbers is skipped: it is
    the header of fastText and word2vec files. A repeated word keeps its first vector. Files may be
    .gz or .zst.

    Raises:
        UserError: the file is not readable, or a line is not a word with its numbers.
    """
    import pyarrow as pa  # slow to import

    words: dict[str, None] = {}
    values = bytearray()
    try:
        with io.BufferedReader(pa.input_stream(str(path), compression="detect")) as file:
            lines = enumerate(map(bytes.rstrip, file), 1)
            first = list(islice(lines, _FIRST))
            if first and first[0][1].count(b" ") == 1:
                del first[0]
            dim = mode(_count_numbers(line) for _, line in first) if first else 0
            for number, line in chain(first, lines):
                word, vector = _parsed(line, dim)
                if vector is None:
                    raise UserError(
                        f"{path}, line {number}: not a word and {dim} numbers, as GloVe's text "
                        "format has them"
                    )
                if word not in words:
                    words[word] = None
                    values += vector.tobytes()
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {first_line(error)}") from error
    if not words:
        raise UserError(f"{path}: holds no word vectors in GloVe's text format")
    return list(words), np.frombuffer(values, np.float32).reshape(-1, dim)


def _count_numbers(line: bytes) -> int:
    """Count the numbers at the end of a line, after a word of one field or more."""
    count = 0
    with suppress(ValueError):
        for field in reversed(line.split(b" ")[1:]):
            float(field)
            count += 1
    return count


def _parsed(line: bytes, dim: int) -> tuple[str, np.ndarray | None]:
    parts = line.rsplit(b" ", dim)
    if not dim or len(parts) != dim + 1:
        return "", None
    try:
        return parts[0].decode("utf-8", "replace"), np.array(parts[1:], np.float32)
    except ValueError:
        return "", None
