"""DCLR: noise negatives that are moved to where they matter, and no weight for false negatives."""

from __future__ import annotations

from typing import Literal

import torch

from isospace.operators import similarity

Weighting = Literal["paper", "paper-others", "logit-weight", "released"]


def ascend(
    noise: torch.Tensor,
    anchor: torch.Tensor,
    positive: torch.Tensor,
    *,
    temperature: float,
    steps: int,
    size: float,
) -> torch.Tensor:
    """Move every row of `noise` (m, dim) up the gradient of InfoNCE with these negatives.

    Each of the `steps` has length `size`, or none where the gradient is 0. `anchor` and `positive`
    (batch, dim), and the result, are constants; no false negative is left out of this loss.
    """
    anchor, positive = anchor.detach(), positive.detach()
    with torch.enable_grad():
        for _ in range(steps):
            noise = noise.detach().requires_grad_()
            loss = similarity.info_nce(anchor, positive, temperature, noise)
            (gradient,) = torch.autograd.grad(loss, noise)
            length = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            noise = noise + size * gradient / torch.where(length > 0, length, 1.0)
    return noise.detach()


def true_negatives(first: torch.Tensor, second: torch.Tensor, threshold: float) -> torch.Tensor:
    """Weights (batch, batch): 0 where a frozen encoder's views have a cosine above `threshold`.

    Else, and for the positives on the diagonal, 1. `first` and `second`: (batch, dim).
    """
    weights = (similarity.cosine_matrix(first, second) <= threshold).to(first.dtype)
    return similarity.with_diagonal(weights, weights.new_ones(len(weights)))


def debiased_contrast(
    z1: torch.Tensor,
    z2: torch.Tensor,
    noise: torch.Tensor,
    weights: torch.Tensor,
    *,
    temperature: float,
    variant: Weighting = "paper",
) -> torch.Tensor:
    """InfoNCE of two views (batch, dim) with weighted negatives and noise (m, dim), a scalar.

    `variant` says what a weight (batch, batch) multiplies:

    - "paper": the negative's exponential, so that 0 removes it. "paper-others" is the same without
      the positive in the denominator, which the paper's text may mean too.
    - "logit-weight": the logit, so that 0 leaves a negative of cosine 0.
    - "released": the logit too; and the loss is the binary cross-entropy of each cell's
      probability, averaged over all cells. The release is NaN in float32 where a probability
      rounds to 1; here that cell counts as the next smaller number.
    """
    logits = similarity.cosine_matrix(z1, torch.cat([z2, noise])) / temperature
    weights = torch.cat([weights, weights.new_ones(len(z1), len(noise))], dim=1)
    if variant == "paper":
        return similarity.softmax_losses(logits + weights.log()).mean()
    if variant == "paper-others":
        own = torch.eye(*logits.shape, dtype=torch.bool, device=logits.device)
        others = (logits + weights.log()).masked_fill(own, -torch.inf)
        return (others.logsumexp(dim=1) - logits.diagonal()).mean()
    if variant == "logit-weight":
        return similarity.softmax_losses(weights * logits).mean()
    own = torch.eye(*logits.shape, dtype=torch.bool, device=logits.device)
    log_p = torch.log_softmax(weights * logits, dim=1)
    below_one = log_p.exp().clamp(max=1 - torch.finfo(log_p.dtype).eps)
    return -torch.where(own, log_p, torch.log1p(-below_one)).mean()
