"""InfoNCE without false negatives, and with noise as hard negatives (DCLR)."""

from __future__ import annotations

import torch

from isospace.losses.contrastive import (
    cell_cross_entropy,
    diagonal_cross_entropy,
    info_nce,
)
from isospace.operators import similarity


def hardened_noise(
    noise: torch.Tensor,
    z1: torch.Tensor,
    z2: torch.Tensor,
    *,
    temperature: float,
    steps: int = 4,
    step_size: float = 1e-3,
    stop_gradient: bool = True,
) -> torch.Tensor:
    r"""Move noise uphill on InfoNCE, in which it serves as further negatives.

    $$\hat z \leftarrow \hat z + \beta\, g / \|g\|, \qquad g = \nabla_{\hat z} \ell(z, z', \hat z)$$

    Zhou et al. 2022, "Debiased Contrastive Learning of Unsupervised Sentence Representations"
    (DCLR). Rows without a gradient stay.

    Args:
        noise: (m, dim)
        z1: z, (batch, dim).
        z2: z', (batch, dim).
        temperature: divides the cosines.
        steps: how often the noise moves.
        step_size: beta, length of a step.
        stop_gradient: return constants.

    Returns:
        (m, dim)
    """
    if stop_gradient:
        z1, z2 = z1.detach(), z2.detach()
    with torch.enable_grad():
        noise = noise.detach().requires_grad_()
        for _ in range(steps):
            loss = info_nce(z1, z2, temperature, noise)
            (uphill,) = torch.autograd.grad(loss, noise, create_graph=not stop_gradient)
            smallest = torch.finfo(uphill.dtype).tiny
            noise = noise + step_size * torch.nn.functional.normalize(uphill, eps=smallest)
            if stop_gradient:
                noise = noise.detach().requires_grad_()
    return noise.detach() if stop_gradient else noise


def negative_weights(first: torch.Tensor, second: torch.Tensor, threshold: float) -> torch.Tensor:
    """Return 0 at [i, j] where sentence j is a false negative of i, else 1.

    Zhou et al. 2022 (DCLR).

    Args:
        first: (batch, dim), by the complementary network.
        second: (batch, dim), by the same network, perhaps under other noise.
        threshold: a cosine above it is a false negative.

    Returns:
        (batch, batch); 1 on the diagonal.
    """
    weights = (similarity.cosine_matrix(first, second) <= threshold).to(first)
    return similarity.with_diagonal(weights, torch.ones_like(weights[0]))


def weighted_cross_entropy(
    logits: torch.Tensor, weights: torch.Tensor, *, released: bool = False
) -> torch.Tensor:
    r"""Return the mean cross-entropy of rows whose first columns have weights.

    $$-\frac1N \sum_i \log \frac{e^{s_{ii}}}{\sum_j w_{ij} e^{s_{ij}}}$$

    Zhou et al. 2022 (DCLR). As released, weights multiply logits and the loss is a binary
    cross-entropy of every cell of the softmax.

    Args:
        logits: s, (batch, n).
        weights: w, (batch, batch), of the first columns; further ones weigh 1.
        released: follow the released code.
    """
    batch = len(logits)
    if released:
        logits = torch.cat([weights * logits[:, :batch], logits[:, batch:]], dim=1)
        return cell_cross_entropy(logits, torch.eye(*logits.shape).to(logits)).mean()
    missing = logits.shape[1] - batch
    log_weights = torch.nn.functional.pad(weights, (0, missing), value=1.0).log()
    return diagonal_cross_entropy(logits + log_weights).mean()
