"""A flow that is fitted: its likelihood, its seed, BERT's Adam by a loop over plain numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from isospace.operators.flow import Flow, _BertAdam, fit_flow


def bent(n: int = 2000, seed: int = 0) -> Tensor:
    """Eight columns: four normal ones, and four that are their squares and a little noise."""
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))
    x[:, 4:] = x[:, :4].square() + 0.1 * x[:, 4:]
    return 3 * x + 5


def test_fitting_raises_the_likelihood_of_new_vectors_above_that_of_scaling_alone() -> None:
    x, new = bent(), bent(500, seed=1).double()
    scaled = Flow(8).double()
    scaled.initialise(x.double())
    fitted = fit_flow(x, epochs=20)
    assert fitted.bits_per_dim(new).mean() < scaled.bits_per_dim(new).mean() - 0.3


def test_a_constant_coordinate_stays_near_zero_and_does_not_stop_the_others() -> None:
    """As three of all-MiniLM-L6-v2: one is 1, up to float32's rounding, the other is 0."""
    x, new = bent(), bent(500, seed=1)
    for rows in (x, new):
        rows[:, 2] = 1 + 1e-8 * rows[:, 2]
        rows[:, 6] = 0
    fitted = fit_flow(x, epochs=20)
    z = fitted(new.double())
    quiet = z.std(0) < 0.3
    assert quiet.sum() == 2
    assert z[:, quiet].abs().max() < 1
    assert fitted.steps[0].out.W.abs().max() > 0.02  # it has learned


def test_the_first_epoch_begins_from_scaled_vectors() -> None:
    """One update of 0.001 a parameter: still nearly mean 0 and deviation 1."""
    x = bent(64)
    z = fit_flow(x)(x.double())
    assert z.mean(0).abs().max() < 0.1
    assert (z.std(0, correction=0) - 1).abs().max() < 0.1


def test_the_seed_decides_and_no_other_generator() -> None:
    x = bent(200)
    one = fit_flow(x, seed=1)(x.double())
    torch.manual_seed(5)
    torch.testing.assert_close(fit_flow(x, seed=1)(x.double()), one, rtol=0, atol=0)
    assert not torch.allclose(fit_flow(x, seed=2)(x.double()), one)


def test_every_vector_is_reported_once_an_epoch() -> None:
    done: list[int] = []
    fit_flow(bent(150), epochs=2, on_batch=done.append)
    assert done == [64, 64, 22, 64, 64, 22]


@pytest.mark.parametrize("x", [torch.ones(5, 8), torch.full((5, 8), math.nan)])
def test_vectors_that_nothing_can_be_fitted_to_are_refused(x: Tensor) -> None:
    with pytest.raises(ValueError, match=r"two or more different|NaN or infinity"):
        fit_flow(x)


def test_berts_adam_is_neither_corrected_nor_spared_its_decay() -> None:
    """Gradients of (3, 4) and (0.3, 0.4): the first is cut to length 1."""
    w = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    adam = _BertAdam([w])
    expected, m, v = [1.0, -2.0], [0.0, 0.0], [0.0, 0.0]
    for gradient, cut in (([3.0, 4.0], [0.6, 0.8]), ([0.3, 0.4], [0.3, 0.4])):
        w.grad = torch.tensor(gradient, dtype=torch.float64)
        adam.step()
        for i, g in enumerate(cut):
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g * g
            expected[i] -= 1e-3 * (m[i] / (math.sqrt(v[i]) + 1e-6) + 0.01 * expected[i])
    assert w.tolist() == pytest.approx(expected, rel=1e-6)
