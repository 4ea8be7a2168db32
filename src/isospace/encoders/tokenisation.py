"""Texts to padded token ids, with the prompt of their side."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules.tokenizer import (
    TransformersTokenizerWrapper,
    WordTokenizer,
)
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from isospace.encoders.batch import Batch
from isospace.encoders.prompts import Prompts, Side
from isospace.encoders.words import PieceIds, WordIds
from isospace.errors import UserError
from isospace.system.unicode import without_surrogates
from isospace.views import Vocabulary

_NO_LIMIT = 10**20
"""Tokenizers without a limit give a larger number as their limit."""

_LONG_TEXT = 1 << 14
"""Number of characters up to which a text is tokenised whole."""


class Tokenisation:
    """The tokenizer of a model, with the prompts and the length limit.

    Raises:
        UserError: the tokenizer has no padding token.
    """

    def __init__(self, model: SentenceTransformer, source: str, prompts: Prompts) -> None:
        self.model, self.source, self.prompts = model, source, prompts
        if self.tokenizer.pad_token_id is None and self.tokenizer.eos_token is not None:
            # Decoders do so usually; the mask marks the padding, whichever token stands there.
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if self.tokenizer.pad_token_id is None:
            raise UserError(
                f"{source}: the tokenizer has no padding token, so texts cannot be batched. Give "
                "a text encoder, such as a relative of BERT"
            )

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The Hugging Face tokenizer; of word vectors an object with the same methods."""
        tokenizer: Any = self.model.tokenizer
        if isinstance(tokenizer, TransformersTokenizerWrapper):
            tokenizer = tokenizer.tokenizer
        elif isinstance(tokenizer, WordTokenizer):
            tokenizer = WordIds(tokenizer)
        elif isinstance(tokenizer, Tokenizer):
            tokenizer = PieceIds(tokenizer)
        return cast(PreTrainedTokenizerBase, tokenizer)

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """What edits of tokens need to know of the tokenizer."""
        tokenizer = self.tokenizer
        # A text may begin or end with an unknown or a masked word.
        within = {tokenizer.unk_token_id, tokenizer.mask_token_id}
        return Vocabulary(
            frozenset(tokenizer.all_special_ids) - within,
            tokenizer.mask_token_id,
            functools.cache(lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]),
            len(tokenizer),
            _word_beginnings(tokenizer),
        )

    @property
    def max_length(self) -> int | None:
        """Longest input in tokens, special tokens included; `None`: no limit is known."""
        limit = self.model.max_seq_length
        return None if limit is None or limit > _NO_LIMIT else int(limit)

    @property
    def around(self) -> int:
        """Number of tokens that the tokenizer adds to a text: special ones, or a template."""
        return int(self.tokenizer.num_special_tokens_to_add())

    def prompt_length(self, side: Side | None) -> int:
        """Count the tokens of a side's prompt and the special tokens before it."""
        ids = self.tokenizer(self.prompts.for_side(side))["input_ids"]
        closes = bool(ids) and ids[-1] in self.tokenizer.all_special_ids
        return len(ids) - closes

    def fingerprint(
        self, max_length: int | None, whole: bool = False, side: Side | None = None
    ) -> str:
        """Return a hash of everything that decides what `ids` returns."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            name, vocabulary = type(self.tokenizer).__name__, self.tokenizer.get_vocab()
            tokenizer = json.dumps({"class": name, "vocab": vocabulary}, sort_keys=True)
        else:
            tokenizer = _without_calls(backend.to_str())
        limit = self._limit(max_length, whole, side)
        # Tokenizers of word vectors name no side, and keep the beginning.
        kept = getattr(self.tokenizer, "truncation_side", "right")
        about = json.dumps([self.prompts.for_side(side), limit, kept])
        return hashlib.sha256(f"[{tokenizer}, {about}]".encode()).hexdigest()

    def ids(
        self,
        texts: Sequence[str],
        max_length: int | None = None,
        whole: bool = False,
        side: Side | None = None,
    ) -> list[list[int]]:
        """Return token ids, special tokens included.

        Tokens of the prompt do not count against `max_length`. With `whole` nothing is cut, and the
        result may be longer than the model can read.
        """
        limit = self._limit(max_length, whole, side)
        prompt = self.prompts.for_side(side)
        prompted = [without_surrogates(prompt + text) for text in texts]
        return self._tokenise([self._beginning(text, limit) for text in prompted], limit)

    def cut(self, ids: np.ndarray, max_length: int, side: Side | None = None) -> np.ndarray:
        """Truncate (token,) ids as `ids` truncates a text to `max_length`."""
        limit = self._limit(max_length, side=side)
        if limit is None or len(ids) <= limit:
            return ids
        inner = self.vocabulary.inner(ids)
        room = limit - (len(ids) - (inner.stop - inner.start))
        kept = slice(inner.start, inner.start + room)
        if self.tokenizer.truncation_side != "right":
            kept = slice(inner.stop - room, inner.stop)
        return np.concatenate([ids[: inner.start], ids[kept], ids[inner.stop :]])

    def collate(
        self,
        ids: Sequence[Sequence[int] | np.ndarray],
        texts: int = 1,
        sides: Sequence[Side | None] = (None,),
    ) -> Batch:
        """Pad token ids to the longest of them.

        They are in the order of `Batch`; `sides` are those of the texts of an example.
        """
        longest = max(1, *(len(row) for row in ids))  # word vectors may know no word of a text
        padded = np.full((len(ids), longest), self.tokenizer.pad_token_id, dtype=np.int64)
        mask = np.zeros((len(ids), longest), dtype=np.int64)
        for i, row in enumerate(ids):
            padded[i, : len(row)] = row
            mask[i, : len(row)] = 1
        prompts = {
            text: self.prompt_length(side)
            for text, side in enumerate(sides)
            if self.prompts.for_side(side)
        }
        return Batch(torch.from_numpy(padded), torch.from_numpy(mask), texts, prompts=prompts)

    def _limit(
        self, max_length: int | None, whole: bool = False, side: Side | None = None
    ) -> int | None:
        """Return the shorter of the two limits; `None` is no limit."""
        if whole:
            return None
        if max_length is not None and self.prompts.for_side(side):
            prompt = self.tokenizer(self.prompts.for_side(side), add_special_tokens=False)
            max_length += len(prompt["input_ids"])
        limits = [limit for limit in (max_length, self.max_length) if limit is not None]
        limit = min(limits, default=None)
        if limit is not None and limit < self.around:  # a tokenizer would not cut at all
            raise UserError(
                f"`max_length` {limit}: {self.source} adds {self.around} tokens to every text. "
                "Give a larger number"
            )
        return limit

    def _beginning(self, text: str, limit: int | None) -> str:
        """Return enough of a long text to fill the limit: tokenising all of it would be slow.

        A beginning is enough where its first half fills the limit with the same tokens, since the
        cut then lies far behind the tokens that are read.
        """
        if limit is None or self.tokenizer.truncation_side != "right":
            return text
        size = max(_LONG_TEXT, 32 * limit)
        ids_of_half: list[int] = []
        while size < len(text):
            [ids] = self._tokenise([text[:size]], limit)
            if len(ids) == limit and ids == ids_of_half:
                return text[:size]
            ids_of_half, size = ids, 2 * size
        return text

    def _tokenise(self, texts: list[str], limit: int | None) -> list[list[int]]:
        encoded = self.tokenizer(
            texts,
            truncation=limit is not None,
            max_length=limit,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # no warning that a whole text is longer than the model's limit
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids


@functools.lru_cache(maxsize=4)
def _without_calls(tokenizer: str) -> str:
    """Remove from a tokenizer's JSON the settings that earlier calls left in it."""
    content = json.loads(tokenizer) | {"truncation": None, "padding": None}
    return json.dumps(content, sort_keys=True)


def _word_beginnings(tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """Mark the ids (id,) whose token begins a word, by the marks of tokenizers: ##, Ġ, ▁."""
    tokens = [str(t) for t in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
    for mark in ("Ġ", "▁"):
        if sum(token.startswith(mark) for token in tokens) > len(tokens) // 10:
            return np.array([token.startswith(mark) for token in tokens])
    return np.array([not token.startswith("##") for token in tokens])
