"""PCL: groups of augmented copies, on which two peer networks are to agree."""

from __future__ import annotations

from typing import Literal

import torch

from isospace.operators import similarity


def group_logits(x: torch.Tensor, y: torch.Tensor, temperature: float) -> torch.Tensor:
    """Cosines over the temperature of every anchor of `x` with its copies and the others of `y`.

    `x` and `y`: (1 + copies, batch, dim) of two networks, or of one twice; view 0 is the anchor.
    The result is (batch, copies + batch - 1): the own copies, then the anchors of the others.
    """
    anchors, batch = x[0], x.shape[1]
    own = torch.stack([similarity.cosine_pairs(anchors, copy) for copy in y[1:]], dim=1)
    cosines = similarity.cosine_matrix(anchors, y[0])
    # Laid out in rows of batch + 1, the diagonal of a square matrix is the first column.
    others = cosines.flatten()[1:].view(batch - 1, batch + 1)[:, :-1].reshape(batch, batch - 1)
    return torch.cat([own, others], dim=1) / temperature


def group_discrimination(
    logits: torch.Tensor, copies: int, variant: Literal["paper", "released"] = "paper"
) -> torch.Tensor:
    """Binary cross-entropy, mean over all cells, of the softmax of `group_logits`: a scalar.

    The label of the first `copies` columns is 1. The released code takes the probabilities for
    logits, a slip after which the term stays near log 2.
    """
    probability = logits.softmax(dim=1)
    labels = torch.zeros_like(logits)
    labels[:, :copies] = 1
    if variant == "released":
        loss: torch.Tensor = torch.nn.functional.binary_cross_entropy_with_logits(
            probability, labels
        )
        return loss
    log_p = logits.log_softmax(dim=1)
    below_one = probability.clamp(max=1 - torch.finfo(logits.dtype).eps)
    return -torch.where(labels == 1, log_p, torch.log1p(-below_one)).mean()


def disagreement(
    logits: torch.Tensor, peer: torch.Tensor, mean_over: Literal["cells", "rows"] = "cells"
) -> torch.Tensor:
    """Kullback-Leibler divergence KL(peer || own) of two `group_logits`: a scalar.

    Both networks receive its gradient. The released code takes the mean over all cells, so that a
    row counts 1 / (copies + batch - 1); "rows" is the divergence itself, mean over the batch.
    """
    log_p, log_q = logits.log_softmax(dim=1), peer.log_softmax(dim=1)
    cells = log_q.exp() * (log_q - log_p)
    return cells.mean() if mean_over == "cells" else cells.sum(dim=1).mean()
