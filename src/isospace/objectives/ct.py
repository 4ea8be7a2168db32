"""Contrastive tension: two encoders that are to agree on one sentence and on no others."""

from __future__ import annotations

from typing import Literal

import torch

from isospace.operators import similarity


def tension_pairs(
    positives: torch.Tensor, negatives: torch.Tensor, partners: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Which sentence each encoder sees in each pair, and the labels: (p (1 + K),) each.

    Args:
        positives: (p,) numbers of the sentences that both encoders see.
        negatives: (p, K) numbers that go with them: of the second encoder, beside the positive
            (paper); or of the first encoder, where there are `partners`.
        partners: (p, K) numbers of the second encoder: negative pairs then are two unrelated
            sentences (released code, and sentence-transformers).

    >>> first, second, labels = tension_pairs(torch.tensor([4]), torch.tensor([[7, 8]]))
    >>> first.tolist(), second.tolist(), labels.tolist()
    ([4, 4, 4], [4, 7, 8], [1, 0, 0])
    """
    own = positives[:, None]
    if partners is None:
        negatives, partners = own.expand_as(negatives), negatives
    first, second = (torch.cat([own, others], dim=1) for others in (negatives, partners))
    labels = torch.zeros_like(first)
    labels[:, 0] = 1
    return first.flatten(), second.flatten(), labels.flatten()


def tension(
    a: torch.Tensor,
    b: torch.Tensor,
    labels: torch.Tensor,
    reduction: Literal["mean", "sum"] = "mean",
) -> torch.Tensor:
    """Binary cross-entropy of the inner products of pairs (n, dim) each with 0 or 1, a scalar.

    The released code takes the mean over pairs, sentence-transformers' version the sum.
    """
    loss: torch.Tensor = torch.nn.functional.binary_cross_entropy_with_logits(
        (a * b).sum(dim=1), labels.to(a.dtype), reduction=reduction
    )
    return loss


def in_batch_tension(a: torch.Tensor, b: torch.Tensor, log_scale: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the cosines of (batch, dim) each, in both directions, a scalar.

    `log_scale`, a learnable scalar, multiplies the cosines by its exponential (start: log 20). This
    variant is sentence-transformers'.
    """
    logits = log_scale.exp() * similarity.cosine_matrix(a, b)
    both = similarity.softmax_losses(logits) + similarity.softmax_losses(logits.T)
    return both.mean() / 2
