"""A group of copies of every sentence against the batch, by two networks (PCL)."""

from __future__ import annotations

import torch

from isospace.losses.contrastive import cell_cross_entropy
from isospace.operators import similarity


def group_logits(anchors: torch.Tensor, views: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the cosines of every anchor with its own copies, then with the other sentences.

    Wu et al. 2022, "PCL".

    Args:
        anchors: (batch, dim)
        views: (1 + V, batch, dim), the sentence and its V copies, by either network.
        temperature: divides the cosines.

    Returns:
        (batch, V + batch - 1)
    """
    sentence, copies = views[0], views[1:]
    own = torch.stack([similarity.cosine_pairs(anchors, copy) for copy in copies], dim=1)
    cosines = similarity.cosine_matrix(anchors, sentence)
    other = ~torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    return torch.cat([own, cosines[other].view(len(anchors), -1)], dim=1) / temperature


def group_cross_entropy(
    logits: torch.Tensor, copies: int, *, released: bool = False
) -> torch.Tensor:
    """Return the binary cross-entropy of the rows' softmax, with label 1 for the own copies.

    Wu et al. 2022, "PCL".

    Args:
        logits: (batch, copies + batch - 1), of `group_logits`.
        copies: how many columns are own copies.
        released: take the probabilities for logits once more, as the released code does.
    """
    labels = torch.zeros_like(logits)
    labels[:, :copies] = 1
    if not released:
        return cell_cross_entropy(logits, labels).mean()
    return torch.nn.functional.binary_cross_entropy_with_logits(logits.softmax(dim=1), labels)


def softmax_divergence(logits: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return KL(reference || logits) of the rows' softmax, (batch, n) each, as a mean over cells.

    Wu et al. 2022, "PCL".
    """
    log_p, log_q = (x.log_softmax(dim=1) for x in (logits, reference))
    return (log_q.exp() * (log_q - log_p)).mean()
