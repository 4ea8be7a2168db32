"""Barlow Twins and SimCSE++'s study of its rank: special cases, golden files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from golden_files import check, files, precisions, read
from objective_views import random
from torch import Tensor, nn

from isospace.losses.correlation import (
    barlow_twins,
    correlation_terms,
    diagonal_terms,
    unit_columns,
)
from isospace.objectives import (
    RankStudy,
)
from isospace.objectives.heads import ArtificialRows, seeded
from isospace.views import Views


@precisions
@files("barlow_")
def test_barlow_twins_with_artificial_rows(path: Path, precision: str) -> None:
    file = read(path)
    rows = int(file["M"])
    inputs = {name: file[name] for name in ("zA", "zB")}
    add_rows = ArtificialRows(rows, file["zA"].shape[1], seeded(0)) if rows else nn.Identity()
    if rows:
        add_rows.artificial.copy_(file["gauss_A"])
    weight = float(file["lambda_bt"])

    def same_noise(objective: RankStudy) -> Callable[[Tensor, Tensor], Tensor]:
        def loss(a: Tensor, b: Tensor) -> Tensor:
            views = torch.stack([a, b])
            terms = objective(Views(views, add_rows(views)))
            return terms["on_diagonal"] + terms["off_diagonal"]

        return loss

    def plain(a: Tensor, b: Tensor, noise: str = "gauss_A") -> Tensor:
        more = (file["gauss_A"], file[noise]) if rows else (a[:0], b[:0])
        padded = (torch.cat([z, extra.to(z)]) for z, extra in zip((a, b), more, strict=True))
        on, off = barlow_twins(*padded, eps=float(file["eps"]))
        return on + weight * off

    check(file, "same_noise_", precision, inputs, plain, rel=1e-5)
    key = "official_lambda012_same_noise_"
    official = RankStudy(rows=rows, barlow_weight=1.0)
    check(file, key, precision, inputs, same_noise(official), rel=1e-5)
    if "independent_noise_loss_f64" in file:
        independent = partial(plain, noise="gauss_B")
        check(file, "independent_noise_", precision, inputs, independent, rel=1e-5)


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
