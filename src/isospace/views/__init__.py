"""One encoding of a batch, what may change its tokens or embeddings, and all encodings together.

Edits and perturbations draw from a generator that depends on the seed, the place of the batch in
the run and the sentence alone: equally on one process, on several, and in a resumed run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Read = Literal["pooled", "mask", "tokens"]

NO_TARGET = -100
"""Instead of a token id: no token is to be predicted here (`ignore_index` of PyTorch)."""


@dataclass(frozen=True)
class Vocabulary:
    """The part of a tokenizer that edits read."""

    special: frozenset[int]
    """Ids of the tokens that enclose and pad sentences."""
    mask: int | None
    encode: Callable[[str], list[int]]
    """Returns the ids of a text, without special tokens."""
    size: int = 0
    begins: NDArray[np.bool_] | None = None
    """(id,) true where a token begins a word; `None`: every token does."""

    @property
    def mask_id(self) -> int:
        """The id of the mask token, for edits with `needs_mask`."""
        assert self.mask is not None
        return self.mask

    def inner(self, ids: Ids) -> slice:
        """Return the slice of the tokens between the enclosing special ones."""
        words = np.flatnonzero(~np.isin(ids, list(self.special)))
        middle = len(ids) // 2  # if all tokens are special
        return slice(int(words[0]), int(words[-1]) + 1) if len(words) else slice(middle, middle)

    def word_numbers(self, words: Ids) -> Ids:
        """Return the number (token,) of the word that each token belongs to, from 0."""
        begins = np.ones(len(words), bool) if self.begins is None else self.begins[words]
        return np.cumsum(begins | (np.arange(len(words)) == 0)) - 1


@dataclass(frozen=True)
class Edit:
    """A change of a sentence's token ids before the encoder.

    Edits of one `stream` have the same draws for a sentence; by default each view has other draws.
    """

    stream: str = ""

    needs_mask = False
    """True if the tokenizer must have a mask token."""
    needs = 0
    """Least number of tokens of a text, without special tokens. Above 0, texts are not cut to the
    run's `max_length`, and all edits of the plan must have it above 0."""
    moves = False
    """True if tokens have positions other than their places."""

    def __call__(self, ids: Ids, random: Generator, vocabulary: Vocabulary) -> Ids:
        """Edit one sentence, (token,) to (token',), with its special tokens."""
        inner = vocabulary.inner(ids)
        words = self._edited(ids[inner], random, vocabulary, len(ids))
        return np.concatenate([ids[: inner.start], words, ids[inner.stop :]])

    def _edited(self, words: Ids, random: Generator, vocabulary: Vocabulary, length: int) -> Ids:
        """Edit the tokens between the special ones; `length` counts the special ones too."""
        raise NotImplementedError

    def positions(self, ids: Ids, vocabulary: Vocabulary) -> Ids:
        """Return the positions (token',) of the edited tokens, if the edit `moves` them."""
        raise NotImplementedError

    def adds(self, ids: Ids, vocabulary: Vocabulary) -> int:
        """Return how many tokens the edit may add; `ids` are cut first to leave room."""
        return 0


@dataclass(frozen=True)
class Perturbation:
    """A change of a sentence's embeddings before the first layer."""

    def positions(self, length: int, random: Generator) -> NDArray[np.int64]:
        """Return the position (length,) of each token; by default its place."""
        return np.arange(length)

    def kept(self, length: int, dim: int, random: Generator) -> NDArray[np.bool_]:
        """Return true for values not set to 0, broadcastable to (length, dim); default: all."""
        return np.ones((1, 1), dtype=bool)


@dataclass(frozen=True)
class View:
    """One encoding of the batch: the text, its changes, the network and its dropout."""

    dropout: float | None = None
    """Dropout rate; `None` is the network's own rate, 0.0 a clean pass."""
    text: int = 0
    """Position of the text in the example: 0 the anchor, 1 its positive (of labelled pairs the
    second text), 2 its hard negative, then mined texts. Lines have text 0 only."""
    edit: Edit | None = None
    perturb: Perturbation | None = None
    by: str = "encoder"
    """"encoder", or the name of an auxiliary network."""
    read: Read = "pooled"
    """The pooled vector, the state at the mask token, or the states of all tokens."""
    of_anchor: bool = False
    """With pairs of texts, true for a view of the anchor's text, as the first view of a plan always
    is; other views are of the positive's text."""

    @property
    def changes_embeddings(self) -> bool:
        """True if the embeddings are not those of the network's own embedding step."""
        return self.perturb is not None or (self.edit is not None and self.edit.moves)


@dataclass(frozen=True, eq=False)
class TokenStates:
    """The states of a view, (batch, length, dim), zero at the padding; the mask is 1 for tokens."""

    states: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, eq=False)
class TokenIds:
    """The token ids of one input after its edit, (batch, length); the mask is 1 for tokens.

    An edit that returns targets has `NO_TARGET` where none is predicted.
    """

    ids: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, eq=False)
class Views:
    """The batch that an objective gets; the view is always the first axis.

    Attributes:
        encoded: (view, batch, dim), one vector for each sentence, in the order of the plan.
        projected: (view', batch, dim'), the head's output.
        tokens: position in the plan -> states, for views that read all tokens; `encoded` has the
            mean of the tokens of these views.
        auxiliaries: name -> network or memory that `Objective.build_auxiliaries` made.
        inputs: the token ids of `Objective.inputs`.
        labels: (batch,) int64, the class of each example.
        candidates: (candidate, batch, dim'), texts mined for each example, after the head.
        teacher: (batch, batch + candidates), a teacher's scores for each first text of the second
            texts, then of its own candidates; NaN if it does not score one.
        paired: true if the views are of two texts that belong together (`View.of_anchor`).

    Raises:
        ValueError: the views are of fewer than 2 sentences.
    """

    encoded: torch.Tensor
    projected: torch.Tensor
    tokens: Mapping[int, TokenStates] = field(default_factory=dict)
    auxiliaries: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[TokenIds, ...] = ()
    labels: torch.Tensor | None = None
    candidates: torch.Tensor | None = None
    teacher: torch.Tensor | None = None
    paired: bool = False

    def __post_init__(self) -> None:
        if self.encoded.dim() != 3 or self.encoded.shape[1] < 2:
            raise ValueError(
                "encoded: expected the shape (view, batch, dim) with at least 2 sentences; "
                f"got {tuple(self.encoded.shape)}"
            )
