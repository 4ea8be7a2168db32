"""A flow that is fitted once on a corpus, by maximum likelihood, as BERT-flow's released code does.

The loss is the bits per dimension of a batch of 32 pairs, first sides and second sides added. The
optimiser is BERT's: Adam without bias correction, eps 1e-6, weight decay 0.01 on everything, the
gradient cut to length 1, a learning rate of 0.001 that neither warms up nor falls.

Three things differ. The encoder's dropout is on while the released code fits, and its scales begin
from 32 sentences; here vectors are those that the model gives, and the first 1,024 set the scales,
which 32 would leave wrong by an eighth. And a coordinate that does not vary, of which
all-MiniLM-L6-v2 has three, is no density: its scales would grow until every gradient is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch.nn.utils import clip_grad_norm_

from isospace.operators.fitted_whitening import Moments
from isospace.operators.flow import Flow

_BATCH = 64  # sentences: 32 pairs
_FIRST = 1024  # sentences that the scales begin from
_LONGEST = 1.0  # of the gradient


def fit_flow(
    vectors: torch.Tensor,
    *,
    epochs: int = 1,
    seed: int = 0,
    on_batch: Callable[[int], None] | None = None,
) -> Flow:
    """Fit a flow that makes these vectors standard normal; it is in float64 on the CPU.

    Vectors (n, dim) are trained on in their own type, on their own device. `on_batch` is called
    with the number of vectors done after each batch.

    Raises:
        ValueError: as `Moments.require_spread` and `Flow`.
    """
    generator = torch.Generator().manual_seed(seed)
    vectors = _with_spread(vectors, generator)
    flow = Flow(vectors.shape[1], seed=seed).to(vectors)
    optimiser = _BertAdam(flow.parameters())
    for epoch in range(epochs):
        order = torch.randperm(len(vectors), generator=generator).to(vectors.device)
        if not epoch:
            flow.initialise(vectors[order[:_FIRST]])
        for rows in torch.split(order, _BATCH):
            torch.autograd.backward(2 * flow.bits_per_dim(vectors[rows]).mean())
            optimiser.step()
            if on_batch is not None:
                on_batch(len(rows))
    return flow.cpu().double().requires_grad_(False)


def _with_spread(vectors: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Replace constant coordinates by noise as wide as the average coordinate.

    A flow that is fitted to that leaves such a coordinate alone: near zero where it is constant.
    """
    moments = Moments.from_vectors(vectors)
    moments.require_spread()
    variances = moments.covariance().diagonal()
    constant = (variances.sqrt() <= moments.rounding).to(vectors.device)
    noise = torch.randn(len(vectors), int(constant.sum()), generator=generator)
    filled = vectors.clone()
    filled[:, constant] += (variances.mean().sqrt() * noise.to(variances)).to(vectors)
    return filled


class _BertAdam:
    r"""Adam as BERT's code has it: m and v begin at 0, and nothing corrects them for that.

    $m = .9 m + .1 g$, $v = .999 v + .001 g^2$, $w = w - lr (m / (\sqrt{v} + eps) + decay w)$.
    """

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
