"""Similarities where they are hard to compute."""

from __future__ import annotations

import math

import pytest
import torch

from isospace.losses import cell_cross_entropy, info_nce, nt_xent
from isospace.operators.similarity import cosine_matrix


def views() -> torch.Tensor:
    return torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_info_nce_stays_finite_at_tiny_temperatures() -> None:
    z = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    assert info_nce(z, -z, 1e-4).isfinite()


def test_further_negatives_are_wrong_for_every_row() -> None:
    a, b = views()
    alone, none = info_nce(a, b, 0.5), info_nce(a, b, 0.5, b[:0])
    assert torch.equal(alone, none)
    negative = b[:1] + 1
    sums = (cosine_matrix(a, b) / 0.5).exp().sum(1)
    with_it = sums + (cosine_matrix(a, negative)[:, 0] / 0.5).exp()
    expected = alone + (with_it / sums).log().mean()
    torch.testing.assert_close(info_nce(a, b, 0.5, negative), expected)


def test_nt_xent_is_a_softmax_over_all_other_rows_of_both_views() -> None:
    a, b = views()
    rows, losses = torch.cat([a, b]), []
    for i in range(10):
        partner = (i + 5) % 10
        logits = {
            k: (cosine_matrix(rows[i : i + 1], rows[k : k + 1]) / 0.1).item() for k in range(10)
        }
        others = torch.tensor([logits[k] for k in logits if k != i], dtype=torch.float64)
        losses.append(others.logsumexp(0) - logits[partner])
    torch.testing.assert_close(nt_xent(a, b, 0.1), torch.stack(losses).mean())
    torch.testing.assert_close(nt_xent(b, a, 0.1), nt_xent(a, b, 0.1))


def test_softmax_cells_are_losses_of_their_own() -> None:
    logits = torch.tensor([[1.0, 2.0, 0.5]], dtype=torch.float64)
    powers = [math.exp(x) for x in logits[0].tolist()]
    p = [power / sum(powers) for power in powers]
    expected = [-math.log(1 - p[0]), -math.log(p[1]), -math.log(1 - p[2])]
    found = cell_cross_entropy(logits, torch.tensor([[0.0, 1.0, 0.0]]))
    assert found[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_softmax_cells_are_finite_where_a_probability_rounds_to_one(label: float) -> None:
    logits = torch.tensor([[90.0, 0.0]], requires_grad=True)
    labels = torch.tensor([[label, 1 - label]])
    losses = cell_cross_entropy(logits, labels)
    assert losses.isfinite().all()
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert gradient.isfinite().all()
