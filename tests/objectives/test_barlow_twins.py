"""Barlow Twins and SimCSE++'s study of its rank: special cases, golden files."""

from __future__ import annotations

import pytest
import torch
from objective_views import random

from isospace.losses.correlation import (
    correlation_terms,
    diagonal_terms,
    unit_columns,
)
from isospace.objectives import (
    RankStudy,
)
from isospace.views import Views


@pytest.mark.parametrize("batch", [2, 3, 9, 10, 40])
def test_the_terms_without_the_correlation_matrix_equal_those_of_the_matrix(batch: int) -> None:
    a, b = (unit_columns(random(batch, 20, seed=seed)).requires_grad_() for seed in (0, 1))
    found, wanted = correlation_terms(a, b), diagonal_terms(a.T @ b)
    torch.testing.assert_close(found, wanted)
    for one, other in zip(found, wanted, strict=True):
        gradients = (torch.autograd.grad(term, (a, b), retain_graph=True) for term in (one, other))
        torch.testing.assert_close(*gradients)


def test_uncentred_columns_see_a_common_shift() -> None:
    a, b = random(9, 5), random(9, 5, seed=1)
    for variant, sees in (("paper", True), ("released", False)):
        objective = RankStudy(variant=variant)  # type: ignore[arg-type]
        terms = [objective(Views(v, v)) for v in (torch.stack([a, b]), torch.stack([a, b]) + 3)]
        same = terms[0]["on_diagonal"].item() == pytest.approx(terms[1]["on_diagonal"].item())
        assert same is not sees
