r"""Glow for vectors: an invertible map with a known density, fitted once on a corpus (BERT-flow).

The map has several levels of several steps. After each level except the last, the second half of
the vector becomes a part of z, and the next level gets the first half. A step does, in this order:

1. $y = (x + b) \exp(3 l)$ in every coordinate (actnorm; log-determinant $3 \sum l$),
2. reverse the order of the coordinates (the same permutation at every step),
3. with $y = (y_1, y_2)$ in halves: $y_2 \leftarrow y_2 + s(y_1)$, an additive coupling
   (log-determinant 0); $s$ has two layers with ReLU and a linear layer, each with its own b and l.

Training makes $z = f(x)$ standard normal. The loss of x is
$-(\log N(z; 0, I) + \log |\det f'|) / (D \ln 2)$ bits per dimension, and no log-determinant depends
on x. The map consists of matrices and ReLU only, so a stack of dense layers can represent it.

Sources: Kingma & Dhariwal 2018, "Glow"; Li et al. 2020, "On the Sentence Embeddings from
Pre-trained Language Models" (BERT-flow). This is the flow of the code released with BERT-flow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import cast

import torch
from torch import nn
from torch.nn.functional import relu
from torch.nn.utils import clip_grad_norm_

from isospace.operators.fitted_whitening import Moments

_LOGSCALE_FACTOR = 3.0  # a scale is exp(3 logs), which learns three times as fast as exp(logs)
_SMALLEST = 1e-6  # added to a deviation before it is inverted to initialise a scale


class _Scaled(nn.Module):
    """The layer `(x W + b) exp(3 logs)`, or `(x + b) exp(3 logs)` without `inputs`."""

    def __init__(self, outputs: int, inputs: int | None = None) -> None:
        super().__init__()
        self.W = None if inputs is None else nn.Parameter(torch.zeros(inputs, outputs))
        self.b = nn.Parameter(torch.zeros(outputs))
        self.logs = nn.Parameter(torch.zeros(outputs))

    @property
    def log_scale(self) -> torch.Tensor:
        """Logarithms of the scales, (outputs,)."""
        return _LOGSCALE_FACTOR * self.logs

    def forward(self, x: torch.Tensor, initialise: bool) -> torch.Tensor:
        y = x if self.W is None else x @ self.W
        if initialise:
            self.b.copy_(-y.mean(0))
            deviation = (y + self.b).square().mean(0).sqrt()
            self.logs.copy_(-(deviation + _SMALLEST).log() / _LOGSCALE_FACTOR)
        return (y + self.b) * self.log_scale.exp()

    def linear(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (weight (outputs, inputs), bias (outputs,)) of the equivalent linear layer."""
        scale = self.log_scale.exp()
        weight = torch.diag(scale) if self.W is None else scale[:, None] * self.W.T
        return weight, scale * self.b


class _Step(nn.Module):
    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.dim = dim
        self.actnorm = _Scaled(dim)
        self.nn1 = _Scaled(width, dim // 2)
        self.nn2 = _Scaled(width, width)
        self.out = _Scaled(dim // 2, width)

    def forward(self, x: torch.Tensor, initialise: bool) -> torch.Tensor:
        first, second = self.actnorm(x, initialise).flip(-1).chunk(2, -1)
        hidden = relu(self.nn1(first, initialise))
        hidden = relu(self.nn2(hidden, initialise))
        return torch.cat([first, second + self.out(hidden, False)], -1)


class Flow(nn.Module):
    """The map `(..., dim) -> (..., dim)` from x to z.

    A new flow only permutes coordinates, because the last layer of every coupling is zero.

    `depth` is the number of steps in a level, `width` that of the two hidden layers of a coupling.
    A dimension that cannot be halved once for every level is a `ValueError`.
    """

    def __init__(self, dim: int, levels: int = 3, depth: int = 3, width: int = 32) -> None:
        super().__init__()
        if dim % 2**levels:
            raise ValueError(
                f"a flow of {levels} levels needs a multiple of {2**levels} dimensions; got {dim}"
            )
        self.dim = dim
        self.steps = nn.ModuleList(
            _Step(dim >> level, width) for level in range(levels) for _ in range(depth)
        )
        generator = torch.Generator().manual_seed(0)
        for step in self._steps():
            for layer in (step.nn1, step.nn2):
                if layer.W is not None:
                    nn.init.normal_(layer.W, std=0.05, generator=generator)

    def _steps(self) -> list[_Step]:
        return cast(list[_Step], list(self.steps))

    def forward(self, x: torch.Tensor, initialise: bool = False) -> torch.Tensor:
        """Map x to z."""
        parts = []
        for step in self._steps():
            if step.dim < x.shape[-1]:
                x, leaves = x.chunk(2, -1)
                parts.append(leaves)
            x = step(x, initialise)
        return torch.cat([*parts, x], -1)

    @torch.no_grad()
    def initialise(self, x: torch.Tensor) -> None:
        """Set the scales so that the output of each layer has mean 0 and deviation 1 over a batch.

        The last layers of couplings keep their scales, because their output is still zero.
        """
        self(x, initialise=True)

    def log_determinant(self) -> torch.Tensor:
        """Return the log-determinant of the Jacobian, a scalar, the same for every x."""
        return torch.stack([step.actnorm.log_scale.sum() for step in self._steps()]).sum()

    def bits_per_dim(self, x: torch.Tensor) -> torch.Tensor:
        """Return the negative log-likelihood of each vector in bits, `(..., dim) -> (...)`."""
        log_prior = -0.5 * (self(x).square().sum(-1) + self.dim * math.log(2 * math.pi))
        return (log_prior + self.log_determinant()) / (-self.dim * math.log(2))

    @torch.no_grad()
    def dense_layers(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return (weight, bias) of dense layers with ReLU between them that equal the map.

        Each step becomes two hidden layers of width 2 dim + width. Coordinates that a coupling
        does not change pass a ReLU as positive and negative part, x = relu(x) - relu(-x).
        """
        # Invariant: the flow so far is `carry @ h + offset`, with h the last hidden layer. A step
        # changes the first `step.dim` coordinates; the parts of z that are finished come after.
        like = self.log_determinant()
        eye = torch.eye(self.dim, dtype=like.dtype, device=like.device)
        nothing = eye.new_zeros(self.dim)
        carry, offset = eye, nothing
        layers = []
        for step in self._steps():
            n, half = step.dim, step.dim // 2
            weight, bias = step.actnorm.linear()
            carry = torch.cat([(weight @ carry[:n]).flip(0), carry[n:]])
            offset = torch.cat([(weight @ offset[:n] + bias).flip(0), offset[n:]])
            weight, bias = step.nn1.linear()
            inside, bias = weight @ carry[:half], weight @ offset[:half] + bias
            layers.append((torch.cat([carry, -carry, inside]), torch.cat([offset, -offset, bias])))
            weight, bias = step.nn2.linear()
            passed = torch.eye(2 * self.dim + len(weight)).to(eye)
            passed[2 * self.dim :, 2 * self.dim :] = weight
            layers.append((passed, torch.cat([nothing, nothing, bias])))
            weight, bias = step.out.linear()
            shift, offset = eye.new_zeros(self.dim, weight.shape[1]), nothing.clone()
            shift[half:n], offset[half:n] = weight, bias
            carry = torch.cat([eye, -eye, shift], 1)
        sizes = sorted({step.dim for step in self._steps()}, reverse=True)
        places = torch.arange(self.dim, device=like.device)
        leaving = [places[size // 2 : size] for size in sizes[:-1]]
        order = torch.cat([*leaving, places[: sizes[-1]]])
        return [*layers, (carry[order], offset[order])]


_BATCH = 64  # sentences: 32 pairs
_FIRST = 1024  # sentences to initialise the scales
_LONGEST = 1.0  # largest length of the gradient


def fit_flow(vectors: torch.Tensor, on_batch: Callable[[int], None] = lambda count: None) -> Flow:
    """Fit a flow that makes vectors (n, dim) standard normal; return it in float64 on the CPU.

    The loss is the bits per dimension in a batch of 32 pairs, summed over both sides. BERT's
    optimiser has weight decay 0.01 on all parameters, gradients clipped to length 1, and a constant
    learning rate of 0.001. Three things differ from the code of BERT-flow:

    - The released code fits with the encoder's dropout on; here vectors are encoded without it.
    - The released code initialises the scales from 32 sentences, which leaves an error of an
      eighth; here 1,024 sentences are used.
    - A constant coordinate has no density, and its scale would grow until all gradients are
      infinite. all-MiniLM-L6-v2 has three; here noise is added to them.

    Training uses the type and device of the vectors. `on_batch` gets the size of each batch.

    Raises:
        ValueError: as for `Moments.require_spread` and `Flow`.
    """
    generator = torch.Generator().manual_seed(0)
    vectors = _with_spread(vectors, generator)
    flow = Flow(vectors.shape[1]).to(vectors)
    optimiser = _BertAdam(flow.parameters())
    order = torch.randperm(len(vectors), generator=generator).to(vectors.device)
    flow.initialise(vectors[order[:_FIRST]])
    for rows in torch.split(order, _BATCH):
        torch.autograd.backward(2 * flow.bits_per_dim(vectors[rows]).mean())
        optimiser.step()
        on_batch(len(rows))
    return flow.cpu().double().requires_grad_(False)


def _with_spread(vectors: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Add noise to constant coordinates, with the mean variance of a coordinate."""
    moments = Moments.from_vectors(vectors)
    moments.require_spread()
    variances = moments.covariance().diagonal()
    constant = (variances.sqrt() <= moments.rounding).to(vectors.device)
    noise = torch.randn(len(vectors), int(constant.sum()), generator=generator)
    filled = vectors.clone()
    filled[:, constant] += (variances.mean().sqrt() * noise.to(variances)).to(vectors)
    return filled


class _BertAdam:
    """Adam as in BERT's code: m and v begin at 0, without bias correction."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Make one update, and clear the gradients."""
        clip_grad_norm_(self.parameters, _LONGEST)
        for w, (m, v) in zip(self.parameters, self.moments, strict=True):
            if w.grad is None:
                continue
            m.lerp_(w.grad, 0.1)
            v.lerp_(w.grad.square(), 0.001)
            w.sub_(0.001 * (m / (v.sqrt() + 1e-6) + 0.01 * w))
            w.grad = None
