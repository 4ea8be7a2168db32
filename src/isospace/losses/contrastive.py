"""Contrast of positives with negatives: cross-entropies, margins, and further negatives.

Shapes are those of the package unless a docstring says otherwise. tau is the temperature.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch

from isospace.operators import similarity

if TYPE_CHECKING:  # `isospace train --help` does without torch
    from torch import Tensor


def diagonal_cross_entropy(logits: Tensor) -> Tensor:
    r"""Return $-\log \mathrm{softmax}(s_i)_i$ (..., n) of logits (..., n, m), m >= n."""
    return torch.logsumexp(logits, dim=-1) - logits.diagonal(dim1=-2, dim2=-1)


def cell_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Return $-[y \log p + (1 - y) \log(1 - p)]$ (n, m), where p is the rows' softmax.

    Where p rounds to 1, `1 - p` is the smallest positive difference to 1, without a gradient, so
    that the loss stays finite.
    """
    log_p = logits.log_softmax(dim=-1)
    below_one = log_p.clamp(max=-torch.finfo(log_p.dtype).eps)
    log_rest = torch.log(-torch.expm1(below_one))
    return -(labels * log_p + (1 - labels) * log_rest)


def info_nce(
    anchor: Tensor, positive: Tensor, temperature: float, negatives: Tensor | None = None
) -> Tensor:
    r"""Contrast every anchor's positive with the other positives, in one direction.

    $$-\frac1N \sum_i \log \frac{e^{\cos(a_i, b_i)/\tau}}
        {\sum_j e^{\cos(a_i, b_j)/\tau} + \sum_l e^{\cos(a_i, n_l)/\tau}}$$

    Every anchor has the same `negatives` (m, dim). van den Oord et al. 2018, "Representation
    Learning with Contrastive Predictive Coding", Eq. 4; with cosines "SimCSE", Eq. 1.
    """
    candidates = positive if negatives is None else torch.cat([positive, negatives])
    logits = similarity.cosine_matrix(anchor, candidates) / temperature
    return diagonal_cross_entropy(logits).mean()


def nt_xent(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    r"""Contrast two views in both directions; rows of the same view are negatives too.

    $$-\frac1{2N} \sum_{i=1}^{2N} \log \frac{e^{\cos(z_i, z_{i'})/\tau}}
        {\sum_{j \ne i} e^{\cos(z_i, z_j)/\tau}}$$

    z are the rows of both views, i' is the other view of i. Chen et al. 2020, "A Simple Framework
    for Contrastive Learning of Visual Representations" (SimCLR), Eq. 1.
    """
    rows = torch.cat([a, b])
    own = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    logits = (similarity.cosine_matrix(rows, rows) / temperature).masked_fill(own, -torch.inf)
    positives = similarity.cosine_pairs(a, b).repeat(2) / temperature
    return (logits.logsumexp(dim=1) - positives).mean()


def neighbour_nt_xent(a: Tensor, b: Tensor, neighbours: Tensor, temperature: float) -> Tensor:
    r"""Contrast two views with the views of a sentence's neighbours alone, in both directions.

    $$-\frac1{2N} \sum_i \sum_{z \in a, b} \log \frac{e^{a_i b_i/\tau}}
        {e^{a_i b_i/\tau} + \sum_{j \in \mathcal N_i} (e^{z_i a_j/\tau} + e^{z_i b_j/\tau})}$$

    `a` and `b` are of length 1. `neighbours` (batch, batch) is true at [i, j] where j is in N_i.
    Zhang et al. 2022, "Virtual Augmentation Supported Contrastive Learning" (VaSCL).
    """
    own = (a * b).sum(dim=1) / temperature
    losses = []
    for rows in (a, b):
        others = [
            (rows @ view.T / temperature).masked_fill(~neighbours, -torch.inf) for view in (a, b)
        ]
        losses.append(torch.cat([own[:, None], *others], dim=1).logsumexp(dim=1) - own)
    return torch.stack(losses).mean()


def multi_positive(
    views: Tensor,
    temperature: float,
    *,
    form: Literal["l1", "l2", "l2-printed", "l2-plus"] = "l1",
    weight: float = 1.0,
) -> Tensor:
    r"""Contrast each of several positives of an anchor, and combine the losses.

    $$q_{ip} = \frac{e^{\cos(z_{0i}, z_{pi})/\tau}}{\sum_j e^{\cos(z_{0i}, z_{pj})/\tau}}, \qquad
      L_1 = -\lambda \sum_p \log q_{ip}, \qquad L_2 = \log \sum_p \lambda / q_{ip}$$

    View 0 is the anchor; lambda is `weight`. Zhuo et al. 2023, "WhitenedCSE", Eq. 7 ("l1") and
    Eq. 8 as its text describes it ("l2"). The objective explains "l2-printed" and "l2-plus".
    """
    anchor, *positives = views
    logits = torch.stack([similarity.cosine_matrix(anchor, p) / temperature for p in positives])
    own, log_sum = logits.diagonal(dim1=1, dim2=2), logits.logsumexp(dim=2)
    if form == "l1":
        losses = weight * (log_sum - own).sum(0)
    elif form == "l2":
        losses = math.log(weight) + (log_sum - own).logsumexp(0)
    else:
        sign = -1 if form == "l2-printed" else 1
        losses = -math.log(weight) - (sign * own - log_sum).logsumexp(0)
    return losses.mean()


def group_logits(anchors: Tensor, views: Tensor, temperature: float) -> Tensor:
    r"""Return $\cos(x_i, y^v_i)/\tau$ for v = 1 .. V, then $\cos(x_i, y^0_j)/\tau$ for $j \ne i$.

    x: `anchors`; y: `views` (1 + V, batch, dim), the sentence and its V copies, by either network.
    The logits are (batch, V + batch - 1). Wu et al. 2022, "PCL".
    """
    sentence, copies = views[0], views[1:]
    own = torch.stack([similarity.cosine_pairs(anchors, copy) for copy in copies], dim=1)
    cosines = similarity.cosine_matrix(anchors, sentence)
    other = ~torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    return torch.cat([own, cosines[other].view(len(anchors), -1)], dim=1) / temperature


def group_cross_entropy(logits: Tensor, copies: int, *, released: bool = False) -> Tensor:
    """Return the mean of `cell_cross_entropy` of `group_logits`, with label 1 for the own copies.

    Wu et al. 2022, "PCL". The released code takes the probabilities for logits (`released`).
    """
    labels = torch.zeros_like(logits)
    labels[:, :copies] = 1
    if not released:
        return cell_cross_entropy(logits, labels).mean()
    return torch.nn.functional.binary_cross_entropy_with_logits(logits.softmax(dim=1), labels)


def softmax_divergence(logits: Tensor, reference: Tensor) -> Tensor:
    r"""Return $\mathrm{mean}_{ik}\, q_{ik} \log (q_{ik} / p_{ik})$, a KL divergence over n.

    p, q: the rows' softmax of `logits` and `reference`, (batch, n). Wu et al. 2022, "PCL".
    """
    log_p, log_q = (x.log_softmax(dim=1) for x in (logits, reference))
    return (log_q.exp() * (log_q - log_p)).mean()


def mixed_cosines(
    z1: Tensor,
    z2: Tensor,
    weight: float = 0.2,
    *,
    variant: Literal["masked", "released", "paper"] = "masked",
) -> Tensor:
    r"""Return the cosines between anchors and mixed negatives, as extra columns of InfoNCE.

    $$\cos(z_i, m'_j), \quad \cos(m_i, z'_j), \qquad
      m_j = \mathrm{sg}(\lambda z_j + (1 - \lambda) z_{j+1})$$

    lambda is `weight`; sg: a constant. A mix that is mostly the anchor's own positive is at minus
    infinity, or at 0 ("released"). The result is (batch, 2 batch), or (batch, 1) ("paper"). Zhang
    et al. 2022, "Unsupervised Sentence Representation via Contrastive Learning with Mixing
    Negatives" (MixCSE).
    """

    def mix(z: Tensor) -> Tensor:
        return (weight * z + (1 - weight) * z.roll(-1, dims=0)).detach()

    if variant == "paper":
        own = mix(torch.nn.functional.normalize(z2, dim=1))
        return similarity.cosine_pairs(z1, own)[:, None]
    left_out = 0.0 if variant == "released" else -torch.inf
    first, second = mix(z1), mix(z2)
    own = torch.eye(len(z1), dtype=torch.bool, device=z1.device)
    parts = [
        similarity.cosine_matrix(z1, second).masked_fill(own.roll(-1, dims=1), left_out),
        similarity.cosine_matrix(first, z2).masked_fill(own.roll(1, dims=1), left_out),
    ]
    return torch.cat(parts, dim=1)


def pair_layout(
    positives: Tensor, negatives: Tensor, *, with_positive: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return first sentences, second sentences and labels of pairs, each (p * (1 + k),).

    A sentence of `positives` (p,) is paired with itself, then come its k negative pairs. Both of a
    negative pair are `negatives` (p, 2, k), a draw for each tower; or, `with_positive`, the first
    is the sentence itself. Carlsson et al. 2021, "Semantic Re-tuning with Contrastive Tension".
    """
    own = positives.unsqueeze(1)
    first, second = negatives.unbind(1)
    if with_positive:
        first, second = own.expand_as(first), first
    labels = torch.zeros_like(torch.cat([own, first], dim=1))
    labels[:, 0] = 1
    first, second = (torch.cat([own, tower], dim=1) for tower in (first, second))
    return first.flatten(), second.flatten(), labels.flatten()


def contrastive_tension(a: Tensor, b: Tensor, labels: Tensor) -> Tensor:
    r"""Return the binary cross-entropy of the inner products of rows.

    $$-[y \log \sigma(\langle a, b \rangle) + (1 - y) \log \sigma(-\langle a, b \rangle)]$$

    `a` (n, dim) is by the first tower, `b` by the second; y: `labels` (n,), 1 for one sentence. The
    losses are (n,). Carlsson et al. 2021, "Semantic Re-tuning with Contrastive Tension".
    """
    products = (a * b).sum(dim=1)
    return torch.nn.functional.binary_cross_entropy_with_logits(
        products, labels.to(products), reduction="none"
    )


def with_clean_negatives(logits: Tensor, clean: Tensor) -> Tensor:
    """Replace the batch's negatives in `logits` (..., batch, n) by those of `clean` (batch, batch).

    Positives, on the diagonal, and columns after the batch stay. Xu et al. 2023, "SimCSE++", m = 1.
    """
    batch = similarity.with_diagonal(clean, logits.diagonal(dim1=-2, dim2=-1))
    return torch.cat([batch, logits[..., len(clean) :]], dim=-1)


def off_dropout(
    z1: Tensor,
    z2: Tensor,
    clean: Tensor,
    *,
    temperature: float,
    m: float = 0.9,
    variant: Literal["released", "paper"] = "released",
) -> Tensor:
    r"""Contrast noisy positives with noise-free negatives.

    $$\ell_i = -\log \frac{e^{m p_i}}{e^{m p_i} + \sum_{j \ne i} e^{n_{ij}}}, \qquad
      p_i = \cos(z_i, z'_i)/\tau, \quad n_{ij} = \cos(\hat z_i, \hat z_j)/\tau$$

    $z, z'$: `z1` and `z2`, under dropout; $\hat z$: `clean`. Xu et al. 2023, "SimCSE++", as
    released; Eq. 3 has m before the sum over negatives instead (`variant="paper"`).
    """
    positive = similarity.cosine_pairs(z1, z2) / temperature
    negatives = similarity.cosine_matrix(clean, clean) / temperature
    if variant == "released":
        positive = m * positive
    else:
        negatives = negatives + math.log(m)
    return diagonal_cross_entropy(similarity.with_diagonal(negatives, positive)).mean()


def hardened_noise(
    noise: Tensor,
    z1: Tensor,
    z2: Tensor,
    *,
    temperature: float,
    steps: int = 4,
    step_size: float = 1e-3,
) -> Tensor:
    r"""Move noise vectors by gradient ascent on InfoNCE; they serve as further negatives.

    $$\hat z \leftarrow \hat z + \beta\, g / \|g\|, \qquad g = \nabla_{\hat z} \ell(z, z', \hat z)$$

    $\hat z$: `noise` (m, dim), which moves `steps` times by beta, `step_size`, and is a constant.
    Rows without a gradient stay. Zhou et al. 2022, "Debiased Contrastive Learning of Unsupervised
    Sentence Representations" (DCLR).
    """
    for _ in range(steps):
        with torch.enable_grad():
            start = noise.detach().requires_grad_()
            loss = info_nce(z1.detach(), z2.detach(), temperature, start)
        (uphill,) = torch.autograd.grad(loss, start)
        smallest = torch.finfo(uphill.dtype).tiny
        noise = noise + step_size * torch.nn.functional.normalize(uphill, eps=smallest)
    return noise.detach()


def negative_weights(first: Tensor, second: Tensor, threshold: float) -> Tensor:
    r"""Return $w_{ij} = [i = j \lor \cos(c_i, c'_j) \le \varphi]$: 0 for a false negative, else 1.

    c, c': vectors by the complementary network. Zhou et al. 2022 (DCLR).
    """
    weights = (similarity.cosine_matrix(first, second) <= threshold).to(first)
    return similarity.with_diagonal(weights, torch.ones_like(weights[0]))


def weighted_cross_entropy(logits: Tensor, weights: Tensor, *, released: bool = False) -> Tensor:
    r"""Return the mean cross-entropy of rows whose first columns have weights.

    $$-\frac1N \sum_i \log \frac{e^{s_{ii}}}{\sum_j w_{ij} e^{s_{ij}}}$$

    s: `logits` (batch, n); w: `weights` (batch, batch) of the first columns, further ones weigh 1.
    Zhou et al. 2022 (DCLR). As released, weights multiply logits and the loss is a binary
    cross-entropy of every cell of the softmax.
    """
    batch = len(logits)
    if released:
        logits = torch.cat([weights * logits[:, :batch], logits[:, batch:]], dim=1)
        return cell_cross_entropy(logits, torch.eye(*logits.shape).to(logits)).mean()
    missing = logits.shape[1] - batch
    log_weights = torch.nn.functional.pad(weights, (0, missing), value=1.0).log()
    return diagonal_cross_entropy(logits + log_weights).mean()


def angular_margin(a: Tensor, b: Tensor, margin: float = math.pi / 18) -> Tensor:
    r"""Return $\cos(\theta_i + u)$ (batch,), $\theta_i$ between rows i, the margin u in radians.

    Zhang et al. 2022, "A Contrastive Framework ... in Angular Space" (ArcCSE).
    """
    a, b = torch.nn.functional.normalize(a, dim=-1), torch.nn.functional.normalize(b, dim=-1)
    cosine = (a * b).sum(dim=-1)
    # As sqrt(1 - cos^2) the sine of a small angle has no digits and an infinite slope.
    difference, total = (torch.linalg.vector_norm(x, dim=-1) for x in (a - b, a + b))
    sine = difference * total / 2
    return cosine * math.cos(margin) - sine * math.sin(margin)


def masking_triplet(x: Tensor, less: Tensor, more: Tensor, margin: float = 0.0) -> Tensor:
    r"""Ask that a sentence is nearer to itself with a short span masked than with a longer one.

    $$\frac1N \sum_i \max(0, m + \cos(h_i, h''_i) - \cos(h_i, h'_i))$$

    h: `x`, h': `less`, with the short span masked, h'': `more`, whose span holds the short one.
    Zhang et al. 2022 (ArcCSE).
    """
    gaps = similarity.cosine_pairs(x, more) - similarity.cosine_pairs(x, less)
    return (margin + gaps).relu().mean()
