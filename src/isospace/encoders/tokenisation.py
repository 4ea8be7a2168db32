"""Tokenisation: texts to padded token ids, with the prompt of each side."""

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
"""A larger limit of a tokenizer means that it has no limit."""


class Tokenisation:
    """The tokenizer of a model, with the prompts and the length limit."""

    def __init__(self, model: SentenceTransformer, source: str, prompts: Prompts) -> None:
        self.model, self.source, self.prompts = model, source, prompts
        if self.tokenizer.pad_token_id is None and self.tokenizer.eos_token is not None:
            # Usual for decoders. Any token can pad, because the mask marks the padding.
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if self.tokenizer.pad_token_id is None:
            raise UserError(
                f"{source}: the tokenizer has no padding token, so texts cannot be batched. Give "
                "a text encoder, such as a relative of BERT"
            )

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The Hugging Face tokenizer; for word vectors an object with the same methods."""
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
        """The facts about the tokenizer that token edits need."""
        tokenizer = self.tokenizer
        # Unknown and mask tokens can be part of a text, at its beginning or end too.
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
        """Number of tokens that the tokenizer adds to a text: special tokens or a template."""
        return int(self.tokenizer.num_special_tokens_to_add())

    def prompt_length(self, side: Side | None) -> int:
        """Return the number of tokens of a side's prompt, with the special tokens before it."""
        ids = self.tokenizer(self.prompts.for_side(side))["input_ids"]
        closes = bool(ids) and ids[-1] in self.tokenizer.all_special_ids
        return len(ids) - closes

    def fingerprint(
        self, max_length: int | None, whole: bool = False, side: Side | None = None
    ) -> str:
        """Return a hash of everything that determines the result of `ids`."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            name, vocabulary = type(self.tokenizer).__name__, self.tokenizer.get_vocab()
            tokenizer = json.dumps({"class": name, "vocab": vocabulary}, sort_keys=True)
        else:
            tokenizer = _without_calls(backend.to_str())
        limit = self._limit(max_length, whole, side)
        # Word-vector tokenizers have no truncation side; they keep the beginning.
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

        The prompt's tokens do not count towards `max_length`. With `whole`, texts are not
        truncated and may exceed the model's limit.
        """
        limit = self._limit(max_length, whole, side)
        prompt = self.prompts.for_side(side)
        encoded = self.tokenizer(
            [without_surrogates(prompt + text) for text in texts],
            truncation=limit is not None,
            max_length=limit,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # no warning about whole texts above the model's limit
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

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
        sources: int = 1,
        sides: Sequence[Side | None] = (None,),
    ) -> Batch:
        """Return a batch of token ids, padded to the longest row.

        The ids are in the order of `Batch.input_ids`. `sides` has the side of each source of
        an example.
        """
        longest = max(1, *(len(row) for row in ids))  # a text of unknown words has no word vectors
        padded = np.full((len(ids), longest), self.tokenizer.pad_token_id, dtype=np.int64)
        mask = np.zeros((len(ids), longest), dtype=np.int64)
        for i, row in enumerate(ids):
            padded[i, : len(row)] = row
            mask[i, : len(row)] = 1
        prompts = {
            source: self.prompt_length(side)
            for source, side in enumerate(sides)
            if self.prompts.for_side(side)
        }
        return Batch(torch.from_numpy(padded), torch.from_numpy(mask), sources, prompts=prompts)

    def _limit(
        self, max_length: int | None, whole: bool = False, side: Side | None = None
    ) -> int | None:
        """Return the lower of `max_length` (plus the prompt) and the model's limit, or `None`."""
        if whole:
            return None
        if max_length is not None and (prompt := self.prompts.for_side(side)):
            max_length += len(self.tokenizer(prompt, add_special_tokens=False)["input_ids"])
        limits = [limit for limit in (max_length, self.max_length) if limit is not None]
        limit = min(limits, default=None)
        if limit is not None and limit < self.around:  # the tokenizer would not truncate
            raise UserError(
                f"`max_length` {limit}: {self.source} adds {self.around} tokens to every text. "
                "Give a larger number"
            )
        return limit


@functools.lru_cache(maxsize=4)
def _without_calls(tokenizer: str) -> str:
    """Return a tokenizer's JSON without truncation and padding settings of earlier calls."""
    content = json.loads(tokenizer) | {"truncation": None, "padding": None}
    return json.dumps(content, sort_keys=True)


def _word_beginnings(tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """Return (id,) true for tokens that begin a word, by the tokenizer marks ##, Ġ and ▁."""
    tokens = [str(t) for t in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
    for mark in ("Ġ", "▁"):
        if sum(token.startswith(mark) for token in tokens) > len(tokens) // 10:
            return np.array([token.startswith(mark) for token in tokens])
    return np.array([not token.startswith("##") for token in tokens])
