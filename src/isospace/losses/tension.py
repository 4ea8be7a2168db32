"""Pairs of sentences by two towers (Contrastive Tension)."""

from __future__ import annotations

import torch


def pair_layout(
    positives: torch.Tensor, negatives: torch.Tensor, *, with_positive: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the sentence pairs: every positive with itself, then its K negative pairs.

    Args:
        positives: (p,) sentences.
        negatives: (p, 2, k) sentences drawn for each positive: k for either tower.
        with_positive: the first tower sees the positive in the negative pairs too.

    Returns:
        Sentences of the first tower, of the second, and labels; each (p * (1 + k),).
    """
    own = positives.unsqueeze(1)
    first, second = negatives.unbind(1)
    if with_positive:
        first, second = own.expand_as(first), first
    labels = torch.zeros_like(torch.cat([own, first], dim=1))
    labels[:, 0] = 1
    first, second = (torch.cat([own, tower], dim=1) for tower in (first, second))
    return first.flatten(), second.flatten(), labels.flatten()


def contrastive_tension(a: torch.Tensor, b: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    r"""Return the binary cross-entropy of the inner products of rows.

    $$-[y \log \sigma(\langle a, b \rangle) + (1 - y) \log \sigma(-\langle a, b \rangle)]$$

    Carlsson et al. 2021, "Semantic Re-tuning with Contrastive Tension".

    Args:
        a: (n, dim), by the first tower.
        b: (n, dim), by the second tower.
        labels: y, (n,), 1 where both are the same sentence.

    Returns:
        (n,)
    """
    products = (a * b).sum(dim=1)
    return torch.nn.functional.binary_cross_entropy_with_logits(
        products, labels.to(products), reduction="none"
    )
