"""Tokenisation: texts to batches of padded token ids, with prompts and changes of embeddings."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules.tokenizer import (
    TransformersTokenizerWrapper,
    WordTokenizer,
)
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from isospace.encoders.settings import Prompts, Side
from isospace.encoders.words import PieceIds, WordIds
from isospace.errors import UserError
from isospace.operators.whitening import in_float64
from isospace.system.unicode import without_surrogates
from isospace.views import Vocabulary

_LONG_ATTENTION = 64
"""Number of tokens from which splitting a batch by length saves time."""


class EmbeddingChanges(NamedTuple):
    """Changes of the embeddings of padded sentences.

    `positions` (batch, length) are those of the tokens, from 0. `kept` (batch, length, dim) is
    false where the embedding layer's output is set to 0.
    """

    positions: Tensor
    kept: Tensor


@dataclass(frozen=True)
class Batch:
    """Padded token ids of a batch of examples, each with one or several sources.

    A source is a text, or an edited version of it.

    Attributes:
        input_ids: (sources * batch, length) int64, the first source of all examples first.
        attention_mask: (sources * batch, length) int64, 1 for tokens.
        changed: index of a source -> changes of its embeddings, if any.
        labels: (batch,) int64 class of each example.
        prompts: index of a source -> number of prompt tokens, if any. Some poolings leave them out.
        teacher: (batch, n) teacher's scores of the texts in each example's list.
    """

    input_ids: Tensor
    attention_mask: Tensor
    sources: int = 1
    changed: Mapping[int, EmbeddingChanges] = field(default_factory=dict)
    labels: Tensor | None = None
    prompts: Mapping[int, int] = field(default_factory=dict)
    teacher: Tensor | None = None

    def __len__(self) -> int:
        return len(self.input_ids) // self.sources

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        changed = {
            source: EmbeddingChanges(*(x.to(device) for x in changes))
            for source, changes in self.changed.items()
        }
        moved: dict[str, Any] = {
            name: x.to(device) for name, x in vars(self).items() if isinstance(x, Tensor)
        }
        return replace(self, changed=changed, **moved)

    def stack(self, sources: Sequence[int]) -> Batch:
        """Return a batch of one source with the rows of `sources[0]`, then `sources[1]` ...

        Either all or none of the sources have embedding changes; all have the same prompt length.
        """
        if self.sources == len(sources) == 1:
            return self

        def stacked(rows: Tensor) -> Tensor:
            of_source = rows.chunk(self.sources)
            return torch.cat([of_source[place] for place in sources])

        changed = {}
        if parts := [self.changed[place] for place in sources if place in self.changed]:
            changed[0] = EmbeddingChanges(*map(torch.cat, zip(*parts, strict=True)))
        return Batch(
            stacked(self.input_ids),
            stacked(self.attention_mask),
            changed=changed,
            prompts={0: self.prompts[sources[0]]} if sources[0] in self.prompts else {},
        )

    def rows(self, rows: Tensor) -> Batch:
        """Return a batch of some examples, without their embedding changes."""

        def chosen(of_all: Tensor) -> Tensor:
            by_source = of_all.reshape(self.sources, len(self), *of_all.shape[1:])
            return by_source[:, rows].flatten(0, 1)

        return replace(
            self,
            input_ids=chosen(self.input_ids),
            attention_mask=chosen(self.attention_mask),
            changed={},
            labels=None if self.labels is None else self.labels[rows],
            teacher=None if self.teacher is None else self.teacher[rows],
        )

    def parts(self, tokens: int) -> list[Tensor]:
        """Return the rows of parts of at most `tokens` tokens, or one longer example.

        A part holds examples of similar length.
        """
        lengths = self.attention_mask.view(self.sources, len(self), -1).sum((0, 2))
        order = lengths.argsort(stable=True)
        parts: list[list[int]] = [[]]
        room = tokens
        for row, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
            if parts[-1] and length > room:
                parts.append([])
                room = tokens
            parts[-1].append(row)
            room -= length
        return [torch.tensor(part, device=lengths.device) for part in parts]

    def by_length(self) -> list[Tensor]:
        """Return the rows of parts of similar length, to save padding.

        A part is split while that saves a third of the cost of attention, which grows with the
        square of the length.
        """
        lengths = self.attention_mask.sum(1)
        order = lengths.argsort(stable=True)
        parts, rest = [], in_float64(lengths[order])
        while len(rest) >= 2 and rest[-1] >= _LONG_ATTENTION:
            count = torch.arange(1, len(rest), device=rest.device)
            cost = count * rest[:-1].square() + (len(rest) - count) * rest[-1].square()
            best = int(cost.argmin())
            if cost[best] > 2 / 3 * len(rest) * rest[-1].square():
                break
            parts.append(order[best + 1 :])
            order, rest = order[: best + 1], rest[: best + 1]
        return [*parts, order]

    def without_idle_padding(self) -> Batch:
        """Return the batch without the padding after the longest text."""
        length = int(self.attention_mask.sum(1).max())
        ids, mask = self.input_ids[:, :length], self.attention_mask[:, :length]
        changed = {
            source: EmbeddingChanges(*(x[:, :length] for x in changes))
            for source, changes in self.changed.items()
        }
        return Batch(ids, mask, self.sources, changed, prompts=self.prompts)


def embedding_refusal(model: nn.Module) -> str | None:
    """Return the reason why a model's embeddings cannot be changed, or `None`."""
    positions = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    if not isinstance(positions, nn.Embedding):
        return f"{type(model).__name__} has no layer of embeddings with learned positions"
    words: Any = model.get_input_embeddings()  # type: ignore[operator]
    if words.embedding_dim != positions.embedding_dim:
        return f"{type(model).__name__} has embeddings of words of another width than of positions"
    return None


def embedding_width(model: Any) -> int:
    """Return the width of a model's embeddings; the states may be wider."""
    return int(model.embeddings.position_embeddings.embedding_dim)


@contextmanager
def changed_embeddings(model: Any, changes: EmbeddingChanges) -> Iterator[None]:
    """Change the embeddings of a Hugging Face model without an `embedding_refusal`."""
    part = model.embeddings
    table = part.position_embeddings
    # If padding has its own position (RoBERTa), token positions begin after it.
    first = 0 if table.padding_idx is None else table.padding_idx + 1
    with (
        table.register_forward_pre_hook(lambda *_: (first + changes.positions,)),
        part.register_forward_hook(lambda _module, _args, states: states * changes.kept),
    ):
        yield


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
        """Return a hash of what determines the result of `ids`."""
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
        """Return token ids, special tokens included; with `whole` without truncation.

        The prompt's tokens do not count towards `max_length`.
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
        return encoded["input_ids"]

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
        """Return a batch of ids in the order of `Batch.input_ids`; `sides` has one a source."""
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
