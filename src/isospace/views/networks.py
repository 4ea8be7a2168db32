"""Networks that objectives and encoders share: the encoder that objectives see, convolutions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from isospace.views import Vocabulary


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


class Convolutions(nn.Module):
    """Concatenated convolutions of several kernel widths over the same tokens (IS-BERT)."""

    def __init__(
        self,
        dim: int,
        channels: int,
        kernels: Sequence[int],
        *,
        relu: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.dim, self.channels, self.kernels, self.relu = dim, channels, tuple(kernels), relu
        self.layers = nn.ModuleList()
        for kernel in kernels:
            empty = nn.Conv1d(dim, channels, kernel, padding=kernel // 2, device="meta")
            layer = empty.to_empty(device="cpu")
            bound = (dim * kernel) ** -0.5  # PyTorch's initialisation, drawn from our generator
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter.uniform_(-bound, bound, generator=generator)
            self.layers.append(layer)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Convolve token states (batch, length, dim) with a mask (batch, length).

        States must be zero at the padding. The result (batch, length, channels of all convolutions)
        is zero there too.
        """
        across = states.transpose(1, 2)
        features = torch.cat([layer(across) for layer in self.layers], dim=1).transpose(1, 2)
        features = features.relu() if self.relu else features
        return features * mask.unsqueeze(-1)
