"""DeCLUTR: a span of a document against the mean of spans near it."""

from __future__ import annotations

import torch

from isospace.operators import similarity


def span_contrast(
    anchors: torch.Tensor, positives: torch.Tensor, temperature: float
) -> torch.Tensor:
    """NT-Xent of anchors (n, dim) and the means of their positives (n, p, dim), a scalar.

    The positives are averaged as they are, not at length 1. Other anchors of the same document are
    negatives like any others.
    """
    return similarity.nt_xent(anchors, positives.mean(dim=1), temperature)
