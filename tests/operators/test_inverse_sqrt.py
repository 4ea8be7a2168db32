"""Inverse square roots: the closed form of order 2, signs, order, any scale."""

import numpy as np
import pytest
import torch
from objective_views import random
from torch import Tensor

from isospace.operators.whitening import eigensystem, pca, zca_pairs


class OnMPS(Tensor):
    """A matrix that says it is on MPS, where float64 does not exist."""

    @property
    def device(self):
        return torch.device("mps")

    def cpu(self):
        return self.as_subclass(Tensor)

    def double(self):
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype")


def test_eigensystems_of_mps_are_computed_on_the_cpu():
    matrix = torch.diag(torch.tensor([1.0, 3.0, 2.0]))
    eigenvalues, _ = eigensystem(matrix.as_subclass(OnMPS))
    assert eigenvalues.dtype == torch.float32
    assert eigenvalues.tolist() == [3.0, 2.0, 1.0]


@pytest.mark.parametrize("scale", [1e-16, 1e-6, 1.0, 1e6, 1e16])
def test_closed_form_of_the_symmetric_root_at_any_scale(scale):
    rows = random(40, 4, 2)
    rows[:10, :, 1] = 3 * rows[:10, :, 0]  # rank one
    rows[10] = 0
    wanted = []
    for c in (rows.mT @ rows).numpy():
        values, vectors = np.linalg.eigh(c)
        root = np.where(values > 1e-12, np.abs(values).clip(1e-12) ** -0.5, 0.0)
        wanted.append(vectors @ np.diag(root) @ vectors.T)
    covariance = (rows.mT @ rows * scale).float()
    entries = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    found = torch.stack(zca_pairs(*entries), dim=1) * scale**0.5
    assert np.allclose(found.numpy(), np.stack(wanted)[:, 0], rtol=1e-4, atol=1e-5)


def test_pca_sorts_by_variance_and_fixes_signs():
    x = random(50, 3) * torch.tensor([1.0, 10.0, 0.1])
    matrix = pca(torch.cov(x.T, correction=0))
    largest = matrix.abs().argmax(0)
    assert largest.tolist() == [1, 0, 2]
    assert (matrix.gather(0, largest[None]) > 0).all()
