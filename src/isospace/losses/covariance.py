"""Penalties on the variances and covariances of a batch (VICReg, covariance identity)."""

from __future__ import annotations

import torch

from isospace.losses.correlation import correlation_terms
from isospace.operators import similarity


def variance_hinge(x: torch.Tensor, *, target: float = 1.0, eps: float = 1e-4) -> torch.Tensor:
    r"""Penalise columns of (batch, dim) whose standard deviation is below a target; a scalar.

    $$\frac1D \sum_j \max(0, \gamma - \sqrt{\mathrm{Var}_j + \epsilon})$$

    Bardes et al. 2022, "VICReg", Eq. 1; variances with divisor batch - 1.

    >>> variance_hinge(torch.tensor([[0.0, 3.0], [0.0, -3.0]]), target=1.0, eps=0.25)
    tensor(0.2500)
    """
    variance = similarity.centre(x).square().sum(dim=0) / (len(x) - 1)
    return (target - (variance + eps).sqrt()).relu().mean()


def shared_variance(x: torch.Tensor) -> torch.Tensor:
    r"""Penalise covariances between the columns of (batch, dim); a scalar.

    $$\frac1D \sum_{j \ne k} \mathrm{Cov}_{jk}^2$$

    Bardes et al. 2022, "VICReg", Eq. 3 and 4; covariances with divisor batch - 1.
    """
    columns = similarity.centre(x) / (len(x) - 1) ** 0.5
    return correlation_terms(columns, columns)[1] / x.shape[1]


def identity_distance(x: torch.Tensor) -> torch.Tensor:
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
