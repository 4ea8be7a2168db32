"""SBERT's softmax loss: the relation of two labelled sentences from their vectors."""

from __future__ import annotations

import torch


def relation_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the logits (batch, relations) with labels (batch,), mean: a scalar."""
    own = logits.gather(1, labels[:, None])[:, 0]
    return (logits.logsumexp(dim=1) - own).mean()
