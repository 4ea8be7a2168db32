"""Heads on the encoder during training: (view, batch, dim) -> (view', batch, dim').

A head that draws random numbers owns a CPU generator, seeded when the head is built and saved with
its state, so that draws are equal on every device and in a resumed run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from isospace.losses.whitening import shuffled_group_whitening
from isospace.objectives.auxiliaries import RandomHead
from isospace.operators.similarity import upcast
from isospace.operators.whitening import Method, split_groups


def seeded(seed: int) -> torch.Generator:
    """Return a CPU generator with this seed."""
    return torch.Generator().manual_seed(seed)


class TanhMLP(nn.Module):
    """SimCSE's head `tanh(x W^T + b)`: W ~ N(0, 0.02^2), b = 0, not the pre-trained pooler."""

    def __init__(self, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.dense = normal_linear(dim, generator)

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view, batch, dim)`."""
        out: Tensor = self.dense(views.to(self.dense.weight.dtype)).tanh()
        return out


def mlp_or_none(choice: str, dim: int, generator: torch.Generator) -> nn.Module:
    """Build the tanh MLP for "mlp", else no head, which suits trained sentence encoders best."""
    return TanhMLP(dim, generator) if choice == "mlp" else nn.Identity()


class Projector(nn.Module):
    """Linear, batch norm and ReLU for each width, Linear alone for the last (Barlow Twins, SCD).

    Batch statistics are taken view by view, in order. Only the first layer may have a bias (SCD).
    """

    def __init__(
        self, dim: int, widths: Sequence[int], generator: torch.Generator, *, first_bias: bool
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for position, width in enumerate(widths):
            if layers:
                layers += [nn.BatchNorm1d(dim), nn.ReLU()]
            bias = first_bias and position == 0
            layers.append(linear(dim, width, generator, bias=bias))
            dim = width
        self.layers = nn.Sequential(*layers)

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view, batch, widths[-1])`."""
        return torch.stack([self.layers(upcast(view)) for view in views])


def _empty_linear(dim: int, width: int, *, bias: bool = True) -> nn.Linear:
    """Return a layer without values: PyTorch's initialisation draws from the global generator."""
    return nn.Linear(dim, width, bias=bias, device="meta").to_empty(device="cpu")


def normal_linear(dim: int, generator: torch.Generator) -> nn.Linear:
    """Return a square layer with BERT's initialisation: weights N(0, 0.02^2), biases 0."""
    layer = _empty_linear(dim, dim)
    with torch.no_grad():
        layer.weight.normal_(0.0, 0.02, generator=generator)
        layer.bias.zero_()
    return layer


def linear(dim: int, width: int, generator: torch.Generator, *, bias: bool) -> nn.Linear:
    """Return a layer with PyTorch's initialisation, drawn from `generator`."""
    layer = _empty_linear(dim, width, bias=bias)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-(dim**-0.5), dim**-0.5, generator=generator)
    return layer


def group_count(dim: int, groups: int | None) -> int:
    """Return the number of groups that whiten `dim` dimensions; `None` takes groups of two.

    Raises:
        ValueError: `groups` is `None` and `dim` is odd.
    """
    if groups is None and dim % 2:
        divisors = [n for n in range(1, dim + 1) if dim % n == 0]
        raise ValueError(
            f"{dim} dimensions cannot be cut into groups of two. Set `groups` to one of {divisors}"
        )
    return dim // 2 if groups is None else groups


class GroupWhitening(RandomHead):
    """Group whitening of every view by its batch statistics (WhitenedCSE).

    The paper's running statistics (Eq. 13) are for inference, where there is no head.

    Args:
        dim: width of the vectors.
        groups: number of groups, must divide `dim`.
        generator: source of the permutations.
        shuffle: deal columns to groups by a permutation per view and step.
        copies: whiten each incoming view this many times, each under a fresh permutation.
        layout: as of `losses.shuffled_group_whitening`; so are `method`, `eps`, `stop_gradient`.
        method: the inverse square root.
        eps: added to every variance.
        stop_gradient: no gradient through the whitening matrix.

    Raises:
        ValueError: `groups` does not divide `dim`.
    """

    def __init__(
        self,
        dim: int,
        groups: int,
        generator: torch.Generator,
        *,
        shuffle: bool = True,
        copies: int = 1,
        layout: Literal["view", "sentence"] = "view",
        method: Method = "zca",
        eps: float = 0.0,
        stop_gradient: bool = True,
    ) -> None:
        super().__init__(generator)
        split_groups(torch.empty(0, dim), groups)  # refused here and not in the first step
        self.dim, self.groups, self.shuffle = dim, groups, shuffle
        self.copies, self.layout = copies, layout
        self.method, self.eps, self.stop_gradient = method, eps, stop_gradient

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view * copies, batch, dim)`."""
        return shuffled_group_whitening(
            upcast(views).repeat_interleave(self.copies, dim=0),
            self.groups,
            self.generator if self.shuffle else None,
            layout=self.layout,
            method=self.method,
            eps=self.eps,
            stop_gradient=self.stop_gradient,
        )
