"""The convolutions of IS-BERT, which are trained as an auxiliary network and saved as a pooling."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


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
