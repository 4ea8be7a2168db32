"""Heads that one paper each has."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from isospace.losses.contrastive import diagonal_cross_entropy
from isospace.objectives.auxiliaries import Auxiliary, RandomHead
from isospace.objectives.heads import linear, normal_linear
from isospace.objectives.networks import follow
from isospace.operators.similarity import nearest_others, upcast, without_autocast
from isospace.views import Views


class Differences(nn.Module):
    """A head on the first half of the views minus the second half (PromptBERT's denoising)."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, views: Tensor) -> Tensor:
        """`(2 * view, batch, dim) -> (view, batch, dim)`."""
        wanted, unwanted = upcast(views).chunk(2)
        out: Tensor = self.head(wanted - unwanted)
        return out


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
        """`(view, batch, dim) -> (view, batch, dim)`."""
        rows: Tensor = self.layers(upcast(views).flatten(0, 1))
        return rows.view_as(views)


class GaussianCopies(RandomHead):
    """All views, then all views with N(0, variance) added (SimCSE++, noise study)."""

    def __init__(self, variance: float, generator: torch.Generator) -> None:
        super().__init__(generator)
        self.deviation = variance**0.5

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (2 * view, batch, dim)`."""
        noise = torch.randn(views.shape, generator=self.generator).to(views)
        return torch.cat([views, views + self.deviation * noise])


class ArtificialRows(nn.Module):
    """Views followed by fixed rows ~ N(0, 1), packed as views (SimCSE++, rank study).

    The rows are drawn once and fill `ceil(rows / batch)` further views, the last one padded with
    zeros: `out[view:].flatten(0, 1)[:rows]` are the rows.
    """

    artificial: Tensor

    def __init__(self, rows: int, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("artificial", torch.randn(rows, dim, generator=generator))

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view + ceil(rows / batch), batch, dim)`."""
        return _with_rows(views, self.artificial)


class GaussianRows(RandomHead):
    """Views followed by fresh rows ~ N(0, 1), packed like `ArtificialRows` (GS-InfoNCE)."""

    def __init__(self, rows: int, generator: torch.Generator) -> None:
        super().__init__(generator)
        self.rows = rows

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view + ceil(rows / batch), batch, dim)`."""
        return _with_rows(views, torch.randn(self.rows, views.shape[2], generator=self.generator))


def _with_rows(views: Tensor, rows: Tensor) -> Tensor:
    _, batch, dim = views.shape
    packed = views.new_zeros(-(-len(rows) // batch) * batch, dim)
    packed[: len(rows)] = rows
    return torch.cat([views, packed.reshape(-1, batch, dim)])


class SeededDropout(nn.Module):
    """Dropout that draws from its own CPU generator."""

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate, self.generator = rate, generator

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout."""
        if not self.rate:
            return x
        kept = torch.rand(x.shape, generator=self.generator) >= self.rate
        return x * kept.to(x) / (1 - self.rate)


class MomentumHead(RandomHead, Auxiliary):
    """Projections of two branches, one of which follows the other, and a predictor (MoCoSE).

    The first view passes pooler (Linear), projection (Linear, layer norm, dropout) and predictor
    (Linear, layer norm, dropout, Linear, tanh); the second view passes copies of pooler and
    projection that follow with momentum.

    Args:
        dim: width of the vectors.
        dropout: rate in projections and predictor.
        generator: of weights and dropout.
        momentum: m of the number of the update to come, from 2.
        train_copy: the optimiser trains the copy of the projection too, as released.
    """

    def __init__(
        self,
        dim: int,
        dropout: float,
        generator: torch.Generator,
        momentum: Callable[[int], float],
        *,
        train_copy: bool,
    ) -> None:
        super().__init__(generator)

        def normed() -> nn.Sequential:
            norm = nn.LayerNorm(dim, eps=1e-12)
            drop = SeededDropout(dropout, generator)
            return nn.Sequential(normal_linear(dim, generator), norm, drop)

        self.pooler, self.projection = normal_linear(dim, generator), normed()
        self.predictor = nn.Sequential(normed(), normal_linear(dim, generator), nn.Tanh())
        # Its dropout must go on drawing from the one generator that is saved.
        shared = {id(generator): generator}
        self.copied_pooler = copy.deepcopy(self.pooler).requires_grad_(False)
        self.copied_projection = copy.deepcopy(self.projection, shared).requires_grad_(train_copy)
        self.momentum = momentum
        self._updates: Tensor
        self.register_buffer("_updates", torch.ones((), dtype=torch.int64))

    def forward(self, views: Tensor) -> Tensor:
        """`(2, batch, dim) -> (2, batch, dim)`."""
        own, other = views.to(self.pooler.weight.dtype)
        query = self.predictor(self.projection(self.pooler(own)))
        return torch.stack([query, self.copied_projection(self.copied_pooler(other))])

    def after_update(self, encoder: nn.Module, views: Views) -> None:
        """Move the copies by momentum."""
        self._updates += 1
        momentum = self.momentum(int(self._updates))
        follow(self.copied_pooler, self.pooler, momentum)
        follow(self.copied_projection, self.projection, momentum)


class VirtualView(RandomHead):
    """Two projected views of length 1, and a virtual view of the first (VaSCL).

    The virtual view moves every sentence by `radius` along the gradient of a contrast with its
    `neighbours` nearest sentences. The gradient is taken `start_radius` away in a random direction.

    Args:
        dim: width of the vectors.
        width: of the projection.
        generator: source of weights and directions.
        neighbours: number of negatives in that contrast.
        radius: length of the step.
        start_radius: length of the random step before it.
        temperature: divides the cosines.
        stop_gradient: treat the moving sentence as a constant.
    """

    def __init__(
        self,
        dim: int,
        width: int,
        generator: torch.Generator,
        *,
        neighbours: int,
        radius: float,
        start_radius: float,
        temperature: float,
        stop_gradient: bool,
    ) -> None:
        super().__init__(generator)
        layers = [linear(dim, dim, generator, bias=False), nn.ReLU()]
        self.layers = nn.Sequential(*layers, linear(dim, width, generator, bias=False))
        self.neighbours, self.temperature = neighbours, temperature
        self.radius, self.start_radius = radius, start_radius
        self.stop_gradient = stop_gradient

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
            cosines = self.project(x + self.start_radius * moved) @ self.project(x).detach().T
            logits = cosines / self.temperature
            own = torch.eye(len(x), dtype=torch.bool, device=x.device)
            rivals = nearest_others(x, self.neighbours) | own
            losses = diagonal_cross_entropy(logits.masked_fill(~rivals, -torch.inf))
            (gradient,) = torch.autograd.grad(losses.mean(), moved)
        step: Tensor = self.radius * gradient / (gradient.norm(dim=1, keepdim=True) + 1e-8)
        return step


def pair_features(u: Tensor, v: Tensor, *, product: bool = False) -> Tensor:
    """Return `[u; v; |u - v|]`, (batch, 3 dim), or with `product` `[u; v; |u - v|; u v]`.

    Where u equals v the difference has no gradient.
    """
    parts = [u, v, (u - v).abs()]
    return torch.cat([*parts, u * v] if product else parts, dim=1)


class PairClassifier(nn.Module):
    """A linear layer on `pair_features`: logits of the relation of two views (SBERT).

    The released code has a `bias`, the paper's formula none.
    """

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
        out: Tensor = self.layer(pair_features(*upcast(views), product=self.product))
        return out[None]
