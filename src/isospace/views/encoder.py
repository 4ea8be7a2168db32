"""The part of an encoder that objectives may use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from isospace.views.view import Vocabulary


class TextEncoder(nn.Module, ABC):
    """Base of encoders, so that objectives need not import `isospace.encoders`."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Width of a sentence vector."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Device of the weights."""

    @property
    @abstractmethod
    def max_length(self) -> int | None:
        """Largest number of tokens of a text; `None` if there is no limit."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The token ids that edits use."""

    @property
    @abstractmethod
    def word_embeddings(self) -> nn.Embedding:
        """The embeddings of token ids."""

    @property
    @abstractmethod
    def attentions(self) -> list[Any]:
        """The attention module of each layer, built like BERT's, or `ValueError`."""

    @abstractmethod
    def language_model(self, name: str | None = None) -> Any:
        """Load a masked-language model of the same vocabulary, (ids, mask) -> logits."""

    @abstractmethod
    def token_states(
        self,
        ids: Tensor,
        mask: Tensor,
        dropout: float | None = None,
        *,
        embedded: Callable[[Tensor], Tensor] | None = None,
        attended: Sequence[Callable[[Tensor], Tensor]] = (),
    ) -> Tensor:
        """Return the states (n, length, dim) of all tokens."""
