"""What sits on the encoder during training only: (view, batch, dim) -> (view', batch, dim').

A head that draws random numbers owns a generator, seeded when the head is built and saved with its
state, so that a resumed run draws what the interrupted one would have drawn. The numbers come from
the CPU whatever the device, so the stream is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from isospace.objectives.base import HeadChoice
from isospace.operators.similarity import upcast
from isospace.operators.whitening import Method, split_groups, whiten

Layout = Literal["view", "sentence"]


def seeded(seed: int) -> torch.Generator:
    """A CPU generator of its own."""
    return torch.Generator().manual_seed(seed)


class RandomHead(nn.Module):
    """Base of heads that draw random numbers; the generator's state is part of `state_dict`."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def get_extra_state(self) -> Tensor:
        """The generator's state, a uint8 tensor."""
        return self.generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        """Go on drawing where the saved generator stood."""
        self.generator.set_state(state.cpu())


class TanhMLP(nn.Module):
    """`tanh(x W^T + b)`, the SimCSE head; W ~ N(0, 0.02^2), b = 0, not the pre-trained pooler."""

    def __init__(self, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.dense = _empty_linear(dim, dim)
        with torch.no_grad():
            self.dense.weight.normal_(0.0, 0.02, generator=generator)
            self.dense.bias.zero_()

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view, batch, dim)`."""
        out: Tensor = self.dense(views.to(self.dense.weight.dtype)).tanh()
        return out


def mlp_or_none(choice: HeadChoice, dim: int, generator: torch.Generator) -> nn.Module:
    """The tanh MLP, or nothing: what an already trained sentence encoder is best adapted with."""
    return TanhMLP(dim, generator) if choice == "mlp" else nn.Identity()


class Projector(nn.Module):
    """Linear, batch norm, ReLU per width, the last width Linear only (Barlow Twins, SCD).

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


class JointProjector(nn.Module):
    """Dense, batch norm, ReLU, dense, batch norm; statistics of all views together (DiffCSE)."""

    def __init__(self, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            linear(dim, 2 * dim, generator, bias=False),
            nn.BatchNorm1d(2 * dim),
            nn.ReLU(),
            linear(2 * dim, dim, generator, bias=False),
            nn.BatchNorm1d(dim, affine=False),
        )

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view, batch, dim)`."""
        rows: Tensor = self.layers(upcast(views).flatten(0, 1))
        return rows.view_as(views)


def _empty_linear(dim: int, width: int, *, bias: bool = True) -> nn.Linear:
    """A layer without values: PyTorch's own initialisation would draw from the global generator."""
    return nn.Linear(dim, width, bias=bias, device="meta").to_empty(device="cpu")


def linear(dim: int, width: int, generator: torch.Generator, *, bias: bool) -> nn.Linear:
    """PyTorch's default initialisation, U(-1/sqrt(dim), 1/sqrt(dim)), from our generator."""
    layer = _empty_linear(dim, width, bias=bias)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-(dim**-0.5), dim**-0.5, generator=generator)
    return layer


class GroupWhitening(RandomHead):
    """Grouped, optionally shuffled whitening of every view by its batch statistics (WhitenedCSE).

    The paper's running statistics (Eq. 13) are for inference, where no head is.

    Args:
        dim: width of the vectors.
        groups: number of groups; must divide `dim`.
        shuffle: draw a permutation per view and step; one group is never shuffled.
        generator: source of the permutations.
        copies: whiten each incoming view this many times, under a fresh permutation each.
        layout: what one set of statistics spans. "view": a view (the paper). "sentence": all
            views of one of `view` equal parts of the batch (the released code).
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
        layout: Layout = "view",
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
        views = upcast(views).repeat_interleave(self.copies, dim=0)
        if self.layout == "sentence":
            return _blocks_to_views(self._whiten(_views_to_blocks(views)))
        return self._whiten(views)

    def draw_permutations(self, views: int) -> Tensor | None:
        """A permutation of the columns per view, (view, dim); `None` when nothing is shuffled."""
        if not self.shuffle or self.groups == 1:
            return None
        return torch.stack(
            [torch.randperm(self.dim, generator=self.generator) for _ in range(views)]
        )

    def _whiten(self, views: Tensor) -> Tensor:
        return whiten(
            views,
            groups=self.groups,
            permutation=self.draw_permutations(len(views)),
            method=self.method,
            eps=self.eps,
            stop_gradient=self.stop_gradient,
        )


def _views_to_blocks(views: Tensor) -> Tensor:
    """Rows sentence by sentence (s1v1, s1v2, ..), cut into as many equal blocks as views."""
    return views.transpose(0, 1).reshape(views.shape)


def _blocks_to_views(blocks: Tensor) -> Tensor:
    view, batch, dim = blocks.shape
    return blocks.reshape(batch, view, dim).transpose(0, 1)


class GaussianCopies(RandomHead):
    """Every view, then every view once more with N(0, variance) added (SimCSE++, noise study)."""

    def __init__(self, variance: float, generator: torch.Generator) -> None:
        super().__init__(generator)
        self.deviation = variance**0.5

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (2 * view, batch, dim)`."""
        noise = torch.randn(views.shape, generator=self.generator).to(views)
        return torch.cat([views, views + self.deviation * noise])


class ArtificialRows(nn.Module):
    """Views followed by fixed rows ~ N(0, 1), packed as views (SimCSE++, rank study).

    The rows are drawn once. They fill `ceil(rows / batch)` further views in reading order, the
    rest of the last one is zero: `out[view:].flatten(0, 1)[:rows]` gets them back.
    """

    artificial: Tensor

    def __init__(self, rows: int, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("artificial", torch.randn(rows, dim, generator=generator))

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view + ceil(rows / batch), batch, dim)`."""
        _, batch, dim = views.shape
        packed = views.new_zeros(-(-len(self.artificial) // batch) * batch, dim)
        packed[: len(self.artificial)] = self.artificial
        return torch.cat([views, packed.reshape(-1, batch, dim)])
