"""Heads on the encoder during training: (view, batch, dim) -> (view', batch, dim').

A head that draws random numbers owns a CPU generator, saved with its state, so that draws are equal
on every device and in a resumed run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from isospace.losses.contrastive import diagonal_cross_entropy
from isospace.losses.correlation import shuffled_group_whitening
from isospace.objectives.auxiliaries import Auxiliary, Network, Seeded
from isospace.operators.similarity import nearest_others, upcast, without_autocast
from isospace.operators.whitening import split_groups
from isospace.views import Views


def seeded(seed: int) -> torch.Generator:
    """Return a CPU generator with this seed."""
    return torch.Generator().manual_seed(seed)


class TanhMLP(nn.Module):
    """SimCSE's head `tanh(x W^T + b)`: W ~ N(0, 0.02^2), b = 0, not the pre-trained pooler."""

    def __init__(self, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.dense = linear(dim, dim, generator, std=0.02)

    def forward(self, views: Tensor) -> Tensor:
        return self.dense(views.to(self.dense.weight.dtype)).tanh()


class Projector(nn.Module):
    """Linear, batch norm and ReLU for each width, Linear alone for the last (Barlow Twins, SCD).

    Each view has batch statistics of its own. Only the first layer may have a bias (SCD).
    """

    def __init__(
        self, dim: int, generator: torch.Generator, *, widths: Sequence[int], first_bias: bool
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


def linear(
    dim: int, width: int, generator: torch.Generator, *, bias: bool = True, std: float | None = None
) -> nn.Linear:
    """Return a layer with PyTorch's initialisation, or weights N(0, std^2) and biases 0 (BERT)."""
    layer = nn.Linear(dim, width, bias=bias, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        if std is not None:
            layer.weight.normal_(0.0, std, generator=generator)
            layer.bias.zero_()
            return layer
        for parameter in layer.parameters():
            parameter.uniform_(-(dim**-0.5), dim**-0.5, generator=generator)
    return layer


class GroupWhitening(Seeded):
    """Group whitening of every view by its batch statistics (WhitenedCSE).

    The paper's running statistics (Eq. 13) are for inference, where there is no head. Without a
    number of groups, they are of two dimensions. Each view is whitened in several `copies`, with
    `shuffle` under fresh permutations. `options` are those of `losses.shuffled_group_whitening`.

    Raises:
        ValueError: the dimensions cannot be cut into so many groups.
    """

    def __init__(
        self,
        dim: int,
        groups: int | None,
        generator: torch.Generator,
        *,
        shuffle: bool = True,
        copies: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(generator)
        self.groups = dim // 2 if groups is None else groups
        split_groups(torch.empty(0, dim), self.groups)  # refused here and not in the first step
        self.shuffle, self.copies, self.options = shuffle, copies, options

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view * copies, batch, dim)`."""
        return shuffled_group_whitening(
            upcast(views).repeat_interleave(self.copies, dim=0),
            self.groups,
            self.generator if self.shuffle else None,
            **self.options,
        )


class Differences(nn.Module):
    """A head on the first half of the views minus the second half (PromptBERT's denoising)."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, views: Tensor) -> Tensor:
        """`(2 * view, batch, dim) -> (view, batch, dim)`."""
        wanted, unwanted = upcast(views).chunk(2)
        return self.head(wanted - unwanted)


class JointProjector(nn.Module):
    """Dense, batch norm, ReLU, dense, batch norm, with statistics of all views (DiffCSE)."""

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
        rows: Tensor = self.layers(upcast(views).flatten(0, 1))
        return rows.view_as(views)


class GaussianCopies(Seeded):
    """All views, then all views with N(0, variance) added (SimCSE++, noise study)."""

    def __init__(self, variance: float, generator: torch.Generator) -> None:
        super().__init__(generator)
        self.deviation = variance**0.5

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (2 * view, batch, dim)`."""
        noise = torch.randn(views.shape, generator=self.generator).to(views)
        return torch.cat([views, views + self.deviation * noise])


class GaussianRows(Seeded):
    """Views followed by rows ~ N(0, 1), new in each step, as views with 0 at the end."""

    def __init__(self, rows: int, generator: torch.Generator) -> None:
        super().__init__(generator)
        self.rows = rows

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view + ceil(rows / batch), batch, dim)`."""
        _, batch, dim = views.shape
        packed = views.new_zeros(-(-self.rows // batch) * batch, dim)
        packed[: self.rows] = torch.randn(self.rows, dim, generator=self.generator)
        return torch.cat([views, packed.reshape(-1, batch, dim)])


class SeededDropout(nn.Module):
    """Dropout that draws from its own CPU generator."""

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate, self.generator = rate, generator

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.rand(x.shape, generator=self.generator) >= self.rate
        return x * kept.to(x) / (1 - self.rate)


class MomentumHead(Seeded, Auxiliary):
    """Pooler, projection and predictor for the first view, and a copy of two for the second.

    The copy of pooler and projection follows with `momentum`, as in `Network` (MoCoSE).
    """

    def __init__(
        self,
        dim: int,
        generator: torch.Generator,
        *,
        dropout: float,
        momentum: Callable[[int], float],
    ) -> None:
        super().__init__(generator)

        def dense() -> nn.Linear:
            return linear(dim, dim, generator, std=0.02)

        def normed() -> list[nn.Module]:
            return [dense(), nn.LayerNorm(dim, eps=1e-12), SeededDropout(dropout, generator)]

        self.projection = nn.Sequential(dense(), *normed())
        self.predictor = nn.Sequential(*normed(), dense(), nn.Tanh())
        self.copied = Network(self.projection, momentum=momentum)
        self.copied.encoder[-1].generator = generator  # the one that is saved

    def forward(self, views: Tensor) -> Tensor:
        """`(2, batch, dim) -> (2, batch, dim)`."""
        own, other = views.to(next(self.parameters()).dtype)
        return torch.stack([self.predictor(self.projection(own)), self.copied.encoder(other)])

    def after_update(self, encoder: nn.Module, views: Views) -> None:
        self.copied.after_update(self.projection, views)


class VirtualView(Seeded):
    """Two projected views of length 1, and a virtual view of the first (VaSCL).

    The virtual view moves every sentence by `radius` along the gradient of a contrast with its
    nearest `neighbours`, taken at a random point `start_radius` away.
    """

    def __init__(
        self,
        dim: int,
        generator: torch.Generator,
        *,
        width: int,
        neighbours: int,
        radius: float,
        start_radius: float,
        temperature: float,
        stop_gradient: bool,
    ) -> None:
        super().__init__(generator)
        self.neighbours, self.temperature = neighbours, temperature
        self.radius, self.start_radius = radius, start_radius
        self.stop_gradient = stop_gradient
        self.layers = nn.Sequential(
            linear(dim, dim, generator, bias=False),
            nn.ReLU(),
            linear(dim, width, generator, bias=False),
        )

    def forward(self, views: Tensor) -> Tensor:
        """`(2, batch, dim) -> (3, batch, width)`."""
        first, second = upcast(views)
        with without_autocast(first):
            uniform = torch.rand(first.shape, generator=self.generator).to(first) - 0.5
            start = first.detach() if self.stop_gradient else first
            moved = start + self.step(first.detach(), uniform)
            return torch.stack([self.project(x) for x in (first, second, moved)])

    def project(self, x: Tensor) -> Tensor:
        """Map `(batch, dim) -> (batch, width)`, of length 1."""
        projected: Tensor = self.layers(x)
        return normalize(projected, dim=-1)

    def step(self, x: Tensor, directions: Tensor) -> Tensor:
        """Return the constant step of every row of `x` (batch, dim) from random directions."""
        with torch.enable_grad():
            moved = (directions / (directions.norm(dim=1, keepdim=True) + 1e-8)).requires_grad_()
            start = x + self.start_radius * moved
            cosines = self.project(start) @ self.project(x).detach().T
            logits = cosines / self.temperature
            own = torch.eye(len(x), dtype=torch.bool, device=x.device)
            rivals = nearest_others(x, self.neighbours) | own
            losses = diagonal_cross_entropy(logits.masked_fill(~rivals, -torch.inf))
            (gradient,) = torch.autograd.grad(losses.mean(), moved)
        length = gradient.norm(dim=1, keepdim=True) + 1e-8
        return self.radius * gradient / length


class PairClassifier(nn.Module):
    """A linear layer on `[u; v; |u - v|]`, perhaps with `u v`: logits of a relation (SBERT)."""

    def __init__(
        self,
        dim: int,
        relations: int,
        generator: torch.Generator,
        *,
        product: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.product = product
        self.layer = linear((3 + product) * dim, relations, generator, bias=bias)

    def forward(self, views: Tensor) -> Tensor:
        """`(2, batch, dim) -> (1, batch, relations)`."""
        u, v = upcast(views)
        parts = [u, v, (u - v).abs(), *([u * v] if self.product else [])]
        out: Tensor = self.layer(torch.cat(parts, dim=1))
        return out[None]
