"""Eps in groups that the batch leaves singular, by having fewer rows than they have columns."""

import pytest
import torch

from isospace.operators.whitening import whiten

EPS = (1e-6, 1e-5, 1e-3)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def uneven(rows, dim):
    """Float32 rows with variances from 20 down to 0.01, about a mean that is not 0."""
    return random(rows, dim) * torch.logspace(1.3, -2, dim).sqrt() + random(dim, seed=1)


def matrix(x, eps):
    """`(C + eps I)^-1/2` in float64, with nothing left out."""
    centred = x.double() - x.double().mean(0)
    cov = centred.T @ centred / len(x)
    values, vectors = torch.linalg.eigh(cov + eps * torch.eye(x.shape[1]))
    return vectors @ values.rsqrt().diag() @ vectors.T


def gradient(x, upstream, eps, stop, method="zca"):
    x = x.clone().requires_grad_()
    out = whiten(x, eps=eps, stop_gradient=stop, method=method)
    assert out.dtype == x.dtype
    (found,) = torch.autograd.grad((out * upstream.to(out)).sum(), x)
    return found


@pytest.mark.parametrize("eps", EPS)
def test_float32_follows_the_formula(eps):
    """The papers' BERT-base and batch: the rounding of the largest variance is above every eps."""
    x, upstream = uneven(64, 768), random(64, 768, seed=2)
    root = matrix(x, eps)
    expected = (x.double() - x.double().mean(0)) @ root
    assert (whiten(x, eps=eps) - expected).norm() < 2e-3 * expected.norm()
    expected = upstream.double() @ root
    expected = (expected - expected.mean(0)).float()
    found = gradient(x, upstream, eps, stop=True)
    assert (found - expected).norm() < 1e-4 * expected.norm()


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("eps", EPS)
def test_gradient_of_float32_is_that_of_float64(eps, stop):
    x, upstream = uneven(16, 96), random(16, 96, seed=2)
    found = gradient(x, upstream, eps, stop)
    expected = gradient(x.double(), upstream, eps, stop)
    assert found.isfinite().all()
    assert (found - expected).norm() < 2e-3 * expected.norm()


@pytest.mark.parametrize("method", ["zca", "pca"])
def test_a_smaller_eps_gives_a_larger_gradient_and_none_leaves_the_direction_out(
    method,
):
    x, upstream = uneven(16, 96), random(16, 96, seed=2)
    sizes = [gradient(x, upstream, eps, True, method).norm().item() for eps in (*EPS, 0.0)]
    assert sizes[0] / sizes[1] == pytest.approx(10**0.5, rel=0.01)
    assert sizes[1] / sizes[2] == pytest.approx(10, rel=0.01)
    assert sizes[3] < 0.05 * sizes[2]
