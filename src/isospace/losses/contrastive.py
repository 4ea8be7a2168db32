r"""Contrast between the sentences of a batch: InfoNCE, NT-Xent, and their cross-entropies."""

from __future__ import annotations

import torch

from isospace.operators import similarity


def diagonal_cross_entropy(logits: torch.Tensor) -> torch.Tensor:
    r"""Return $-\log \mathrm{softmax}(s_i)_i$ for every row i.

    Args:
        logits: (..., n, m) with m >= n; the target of row i is column i.

    Returns:
        (..., n)
    """
    return torch.logsumexp(logits, dim=-1) - logits.diagonal(dim1=-2, dim2=-1)


def cell_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    r"""Return $-[y \log p + (1 - y) \log(1 - p)]$ of every cell, where p is the rows' softmax.

    Where p rounds to 1, `1 - p` is taken as the smallest number that differs from 1 and has no
    gradient, so that the loss stays finite.

    Args:
        logits: (n, m)
        labels: (n, m), 0 or 1.

    Returns:
        (n, m)
    """
    log_p = logits.log_softmax(dim=-1)
    below_one = log_p.clamp(max=-torch.finfo(log_p.dtype).eps)
    log_rest = torch.log(-torch.expm1(below_one))
    return -(labels * log_p + (1 - labels) * log_rest)


def info_nce(
    anchor: torch.Tensor,
    positive: torch.Tensor,
    temperature: float,
    negatives: torch.Tensor | None = None,
) -> torch.Tensor:
    r"""Contrast every anchor's positive with the other positives, in one direction.

    $$-\frac1N \sum_i \log \frac{e^{\cos(a_i, b_i)/\tau}}
        {\sum_j e^{\cos(a_i, b_j)/\tau} + \sum_l e^{\cos(a_i, n_l)/\tau}}$$

    van den Oord et al. 2018, "Representation Learning with Contrastive Predictive Coding", Eq. 4;
    with cosines Gao et al. 2021, "SimCSE", Eq. 1.

    Args:
        anchor: a, (batch, dim).
        positive: b, (batch, dim).
        temperature: tau.
        negatives: n, (m, dim), negatives of every anchor; `None` for the batch alone.
    """
    candidates = positive if negatives is None else torch.cat([positive, negatives])
    logits = similarity.cosine_matrix(anchor, candidates) / temperature
    return diagonal_cross_entropy(logits).mean()


def nt_xent(a: torch.Tensor, b: torch.Tensor, temperature: float) -> torch.Tensor:
    r"""Contrast two views in both directions; rows of the same view are negatives too.

    $$-\frac1{2N} \sum_{i=1}^{2N} \log \frac{e^{\cos(z_i, z_{i'})/\tau}}
        {\sum_{j \ne i} e^{\cos(z_i, z_j)/\tau}}$$

    z are the rows of both views, i' is the other view of i. Chen et al. 2020, "A Simple Framework
    for Contrastive Learning of Visual Representations" (SimCLR), Eq. 1.

    Args:
        a: (batch, dim)
        b: (batch, dim)
        temperature: tau.
    """
    rows = torch.cat([a, b])
    own = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    logits = (similarity.cosine_matrix(rows, rows) / temperature).masked_fill(own, -torch.inf)
    positives = similarity.cosine_pairs(a, b).repeat(2) / temperature
    return (logits.logsumexp(dim=1) - positives).mean()


def neighbour_nt_xent(
    a: torch.Tensor, b: torch.Tensor, neighbours: torch.Tensor, temperature: float
) -> torch.Tensor:
    r"""Contrast two views with the views of a sentence's neighbours alone, in both directions.

    Zhang et al. 2022, "Virtual Augmentation Supported Contrastive Learning" (VaSCL).

    Args:
        a: (batch, dim) of length 1.
        b: (batch, dim) of length 1.
        neighbours: (batch, batch), true at [i, j] where both views of j are negatives of i.
        temperature: divides the products.
    """
    own = (a * b).sum(dim=1) / temperature
    losses = []
    for rows in (a, b):
        others = [
            (rows @ view.T / temperature).masked_fill(~neighbours, -torch.inf) for view in (a, b)
        ]
        losses.append(torch.cat([own[:, None], *others], dim=1).logsumexp(dim=1) - own)
    return torch.stack(losses).mean()
