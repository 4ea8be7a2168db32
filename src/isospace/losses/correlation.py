"""Correlations and variances of the dimensions of one or two views, and their whitening."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch

from isospace.losses.contrastive import diagonal_cross_entropy
from isospace.operators import similarity, whitening

if TYPE_CHECKING:  # `isospace train --help` does without torch
    from torch import Tensor


def unit_columns(x: Tensor, *, eps: float = 0.0) -> Tensor:
    """Standardise the columns of (batch, dim) to length 1; `a.T @ b` of two is a correlation."""
    return similarity.standardise(x, eps=eps) / math.sqrt(len(x))


def diagonal_terms(correlation: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return $\sum_j (1 - C_{jj})^2$ and $\sum_{j \ne k} C_{jk}^2$ of a matrix (dim, dim).

    >>> diagonal_terms(torch.tensor([[0.5, 2.0], [0.0, 1.0]]))
    (tensor(0.2500), tensor(4.))
    """
    dim = len(correlation)
    # Laid out in rows of dim + 1, the diagonal of a square matrix is the first column.
    off_diagonal = correlation.flatten()[:-1].view(dim - 1, dim + 1)[:, 1:]
    return (1 - correlation.diagonal()).square().sum(), off_diagonal.square().sum()


def correlation_terms(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return `diagonal_terms(a.T @ b)` of (batch, dim) each.

    The matrix of a small batch is never made, because `||a^T b||^2 = <a a^T, b b^T>`.
    """
    if 2 * len(a) > a.shape[1]:
        return diagonal_terms(a.T @ b)
    diagonal = (a * b).sum(0)
    total = ((a @ a.T) * (b @ b.T)).sum()
    return (1 - diagonal).square().sum(), total - diagonal.square().sum()


def barlow_twins(a: Tensor, b: Tensor, *, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    r"""Return the invariance and the redundancy term of two views.

    $$\sum_j (1 - C_{jj})^2, \quad \sum_{j \ne k} C_{jk}^2, \qquad C = \tilde a^\top \tilde b / N$$

    $\tilde a$: columns standardised over the batch. Zbontar et al. 2021, "Barlow Twins", Eq. 1 and
    2; the loss is the first plus lambda (0.005) times the second.
    """
    return correlation_terms(unit_columns(a, eps=eps), unit_columns(b, eps=eps))


def self_contrast(a: Tensor, b: Tensor, temperature: float = 1.0) -> Tensor:
    r"""Return the mean cosine of two views of a sentence, which the loss pushes apart.

    $$\frac1N \sum_i \cos(a_i, b_i) / \tau$$

    `a` is at a low dropout rate, `b` at a high one. Klein & Nabi 2022, "SCD", without temperature.
    """
    return similarity.cosine_pairs(a, b).mean() / temperature


def decorrelation(
    a: Tensor, b: Tensor, *, eps: float = 1e-5, variant: Literal["released", "printed"] = "released"
) -> tuple[Tensor, Tensor]:
    r"""Return SCD's second term in its two parts, on and off the diagonal.

    As released: `barlow_twins`. As printed (Klein & Nabi 2022, "SCD", Eq. 3 and 4):
    $-\sum_j (1 - C_{jj})^2$ and $\sum_{j \ne k} C_{jk}^2$ of
    $C_{jk} = \sum_i a_{ij} b_{ik} / \sqrt{\sum_i a_{ij}^2 b_{ik}^2}$, which is no correlation.
    """
    if variant == "released":
        return barlow_twins(a, b, eps=eps)
    on, off = diagonal_terms((a.T @ b) / (a.square().T @ b.square()).sqrt())
    return -on, off


def variance_hinge(x: Tensor, *, target: float = 1.0, eps: float = 1e-4) -> Tensor:
    r"""Penalise columns of (batch, dim) whose standard deviation is below a target; a scalar.

    $$\frac1D \sum_j \max(0, \gamma - \sqrt{\mathrm{Var}_j + \epsilon})$$

    Bardes et al. 2022, "VICReg", Eq. 1; variances with divisor batch - 1.

    >>> variance_hinge(torch.tensor([[0.0, 3.0], [0.0, -3.0]]), target=1.0, eps=0.25)
    tensor(0.2500)
    """
    variance = similarity.centre(x).square().sum(dim=0) / (len(x) - 1)
    return (target - (variance + eps).sqrt()).relu().mean()


def shared_variance(x: Tensor) -> Tensor:
    r"""Penalise covariances between the columns of (batch, dim); a scalar.

    $$\frac1D \sum_{j \ne k} \mathrm{Cov}_{jk}^2$$

    Bardes et al. 2022, "VICReg", Eq. 3 and 4; covariances with divisor batch - 1.
    """
    columns = similarity.centre(x) / (len(x) - 1) ** 0.5
    return correlation_terms(columns, columns)[1] / x.shape[1]


def identity_distance(x: Tensor) -> Tensor:
    r"""Return the distance of the covariance of (batch, dim) from a scaled identity; a scalar.

    $$\frac1D \Big\| \frac{D}{\mathrm{tr}\,C} C - I \Big\|_F^2$$

    Our own form; 0 where the batch is isotropic.

    >>> identity_distance(torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]))
    tensor(0.)
    """
    centred = similarity.centre(x)
    cov = centred.T @ centred / len(x)
    trace = cov.trace().clamp(min=torch.finfo(cov.dtype).tiny)
    identity = torch.eye(len(cov), dtype=cov.dtype, device=cov.device)
    return (len(cov) * cov / trace - identity).square().sum() / len(cov)


def dimension_contrast(
    z1: Tensor,
    z2: Tensor,
    *,
    temperature: float = 5.0,
    variant: Literal["released", "paper"] = "released",
) -> Tensor:
    r"""Contrast every column with the columns of the other view (DCL).

    $$\frac1D \sum_c -\log \frac{e^{S_{cc}/\tau}}{\sum_d e^{S_{cd}/\tau}}, \qquad
      S = \tilde z^\top \tilde z' / N$$

    $\tilde z$: columns standardised over the batch; the released code adds 1e-5 to variances. Eq. 5
    (`variant="paper"`) has neither 1/N nor 1/D, and the divisor N - 1. Xu et al. 2023, "SimCSE++".
    """
    if variant == "released":
        a, b = (similarity.standardise(z, eps=1e-5) for z in (z1, z2))
        return diagonal_cross_entropy(a.T @ b / len(z1) / temperature).mean()
    a, b = (similarity.standardise(z, ddof=1) for z in (z1, z2))
    return diagonal_cross_entropy(a.T @ b / temperature).sum()


def shuffled_group_whitening(
    views: Tensor,
    groups: int,
    generator: torch.Generator | None = None,
    *,
    layout: Literal["view", "sentence"] = "view",
    method: Literal["zca", "pca"] = "zca",
    eps: float = 1e-5,
    stop_gradient: bool = True,
) -> Tensor:
    r"""Whiten the columns of every view in groups, which are dealt by a random permutation.

    $$\mathrm{SGW}_\pi(X) = \pi^{-1}\big[(X_g - \mu_g)\, \Sigma_g^{-1/2}\big]_{g = 1 .. k}$$

    $\pi$, drawn per view by a CPU `generator`, deals the columns of X (view, batch, dim) to k
    `groups`, a divisor of dim; without a generator, neighbours stay together. One group is plain
    whitening, never shuffled. `eps` is added to every variance. $\mu_g$ and $\Sigma_g$ are
    statistics of a view (`layout` "view", the paper), or of all views of one of `view` equal parts
    of the batch ("sentence", the released code). The released code takes the whitening matrix as a
    constant (`stop_gradient`). Zhuo et al. 2023, "WhitenedCSE".
    """
    count, batch, dim = views.shape
    order = None
    if generator is not None and groups > 1:
        order = torch.stack([torch.randperm(dim, generator=generator) for _ in range(count)])
    # Sentence by sentence (s1v1, s1v2, ..), cut into as many equal blocks as there are views.
    rows = views.transpose(0, 1).reshape(views.shape) if layout == "sentence" else views
    out = whitening.whiten(
        rows, groups=groups, permutation=order, method=method, eps=eps, stop_gradient=stop_gradient
    )
    return out.reshape(batch, count, dim).transpose(0, 1) if layout == "sentence" else out
