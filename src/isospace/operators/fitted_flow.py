"""A flow that is fitted once on a corpus by maximum likelihood, like the code of BERT-flow.

The loss is the bits per dimension in a batch of 32 pairs, summed over both sides. The optimiser is
BERT's: Adam without bias correction, eps 1e-6, and weight decay 0.01 on all parameters. The
gradient is clipped to length 1, and the learning rate is constant at 0.001.

Three things differ from the released code:

- The released code fits with the encoder's dropout on; here vectors are encoded without dropout.
- The released code initialises the scales from 32 sentences, which leaves an error of an eighth;
  here 1,024 sentences are used.
- A constant coordinate has no density, and its scale would grow until all gradients are infinite.
  all-MiniLM-L6-v2 has three; here noise is added to them (`_with_spread`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch.nn.utils import clip_grad_norm_

from isospace.operators.fitted_whitening import Moments
from isospace.operators.flow import Flow

_BATCH = 64  # sentences: 32 pairs
_FIRST = 1024  # sentences to initialise the scales
_LONGEST = 1.0  # largest length of the gradient


def fit_flow(
    vectors: torch.Tensor,
    *,
    epochs: int = 1,
    seed: int = 0,
    on_batch: Callable[[int], None] | None = None,
) -> Flow:
    """Fit a flow that makes vectors (n, dim) standard normal; return it in float64 on the CPU.

    Training uses the type and device of the vectors. After each batch `on_batch` is called with the
    number of vectors in the batch.

    Raises:
        ValueError: as for `Moments.require_spread` and `Flow`.
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
    """Add noise to constant coordinates, with the mean variance of a coordinate.

    A flow fitted to the result maps a constant coordinate to values near zero.
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
    r"""Adam as in BERT's code: m and v begin at 0, without bias correction.

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
