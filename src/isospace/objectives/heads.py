"""What sits on the encoder during training only: (view, batch, dim) -> (view', batch, dim').

A head that draws random numbers owns a generator, seeded when the head is built and saved with its
state, so that a resumed run draws what the interrupted one would have drawn. The numbers come from
the CPU whatever the device, so the stream is the same everywhere.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from isospace.objectives.auxiliaries import Auxiliary, RandomHead, follow
from isospace.objectives.base import HeadChoice
from isospace.operators.similarity import (
    nearest_others,
    softmax_losses,
    upcast,
    without_autocast,
)
from isospace.operators.whitening import Method, split_groups, whiten
from isospace.views import Views

Layout = Literal["view", "sentence"]


def seeded(seed: int) -> torch.Generator:
    """A CPU generator of its own."""
    return torch.Generator().manual_seed(seed)


class TanhMLP(nn.Module):
    """`tanh(x W^T + b)`, the SimCSE head; W ~ N(0, 0.02^2), b = 0, not the pre-trained pooler."""

    def __init__(self, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.dense = _normal_linear(dim, generator)

    def forward(self, views: Tensor) -> Tensor:
        """`(view, batch, dim) -> (view, batch, dim)`."""
        out: Tensor = self.dense(views.to(self.dense.weight.dtype)).tanh()
        return out


def mlp_or_none(choice: HeadChoice, dim: int, generator: torch.Generator) -> nn.Module:
    """The tanh MLP, or nothing: what an already trained sentence encoder is best adapted with."""
    return TanhMLP(dim, generator) if choice == "mlp" else nn.Identity()


class Differences(nn.Module):
    """A head on the first half of the views, minus the second half (PromptBERT's denoising)."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, views: Tensor) -> Tensor:
        """`(2 * view, batch, dim) -> (view, batch, dim)`."""
        wanted, unwanted = upcast(views).chunk(2)
        out: Tensor = self.head(wanted - unwanted)
        return out


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


def _normal_linear(dim: int, generator: torch.Generator) -> nn.Linear:
    """BERT's initialisation of a square layer: weights N(0, 0.02^2), biases 0."""
    layer = _empty_linear(dim, dim)
    with torch.no_grad():
        layer.weight.normal_(0.0, 0.02, generator=generator)
        layer.bias.zero_()
    return layer


def linear(dim: int, width: int, generator: torch.Generator, *, bias: bool) -> nn.Linear:
    """PyTorch's default initialisation, U(-1/sqrt(dim), 1/sqrt(dim)), from our generator."""
    layer = _empty_linear(dim, width, bias=bias)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-(dim**-0.5), dim**-0.5, generator=generator)
    return layer


def group_count(dim: int, groups: int | None) -> int:
    """How many groups whiten `dim` dimensions: of two each, where none are named.

    Raises:
        ValueError: none are named, and the dimensions are no pairs.
    """
    if groups is None and dim % 2:
        divisors = [n for n in range(1, dim + 1) if dim % n == 0]
        raise ValueError(f"{dim} dimensions are no pairs; set `groups` to one of {divisors}")
    return dim // 2 if groups is None else groups


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
        return _with_rows(views, self.artificial)


class GaussianRows(RandomHead):
    """Views followed by rows ~ N(0, 1), drawn anew each time, packed like `ArtificialRows`."""

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
    """Dropout that draws from a generator of its own, on the CPU."""

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate, self.generator = rate, generator

    def forward(self, x: Tensor) -> Tensor:
        """As torch's own."""
        if not self.rate:
            return x
        kept = torch.rand(x.shape, generator=self.generator) >= self.rate
        return x * kept.to(x) / (1 - self.rate)


class MomentumHead(RandomHead, Auxiliary):
    """Projections of two branches of which one follows the other, and a predictor (MoCoSE).

    The first view goes through pooler (Linear), projection (Linear, layer norm, dropout) and
    predictor (Linear, layer norm, dropout, Linear, tanh); the second one through copies of pooler
    and projection that follow with momentum.

    Args:
        dim: of the vectors.
        dropout: rate in projections and predictor.
        generator: of weights and dropout.
        momentum: of the number of the update to come, from 2.
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
            return nn.Sequential(_normal_linear(dim, generator), norm, drop)

        self.pooler, self.projection = _normal_linear(dim, generator), normed()
        self.predictor = nn.Sequential(normed(), _normal_linear(dim, generator), nn.Tanh())
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
        """Let the copies follow."""
        self._updates += 1
        momentum = self.momentum(int(self._updates))
        follow(self.copied_pooler, self.pooler, momentum)
        follow(self.copied_projection, self.projection, momentum)


class VirtualView(RandomHead):
    """Two projected views of length 1, and the first once more, moved to be confused (VaSCL).

    Every sentence moves by `radius` along the gradient of a contrast of itself, moved by
    `start_radius` in a random direction, with the `neighbours` sentences nearest to it.

    Args:
        dim: width of the vectors.
        width: of the projection.
        generator: source of weights and directions.
        neighbours: how many negatives a sentence has in that contrast.
        radius: length of the step.
        start_radius: length of the random step before it.
        temperature: divides the cosines.
        stop_gradient: treat the sentence that moves as a constant.
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
        """`(batch, dim) -> (batch, width)`, of length 1."""
        projected: Tensor = self.layers(x)
        return normalize(projected, dim=-1)

    def step(self, x: Tensor, directions: Tensor) -> Tensor:
        """The step of every row of `x` (batch, dim), from a random direction for each; constant."""
        with torch.enable_grad():
            moved = (directions / (directions.norm(dim=1, keepdim=True) + 1e-8)).requires_grad_()
            cosines = self.project(x + self.start_radius * moved) @ self.project(x).detach().T
            logits = cosines / self.temperature
            own = torch.eye(len(x), dtype=torch.bool, device=x.device)
            rivals = nearest_others(x, self.neighbours) | own
            losses = softmax_losses(logits.masked_fill(~rivals, -torch.inf))
            (gradient,) = torch.autograd.grad(losses.mean(), moved)
        step: Tensor = self.radius * gradient / (gradient.norm(dim=1, keepdim=True) + 1e-8)
        return step


def pair_features(u: Tensor, v: Tensor, *, product: bool = False) -> Tensor:
    """`[u; v; |u - v|]` of (batch, dim) each, and `u v` after it with `product`.

    (batch, 3 dim) or (batch, 4 dim). Where u equals v the difference has no gradient.
    """
    parts = [u, v, (u - v).abs()]
    return torch.cat([*parts, u * v] if product else parts, dim=1)


class PairClassifier(nn.Module):
    """Logits of the relation of two views, a linear layer on `pair_features` (SBERT).

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
