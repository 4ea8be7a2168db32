"""ArcCSE: the margin at all angles, the triplet, golden files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from golden_files import BASELINE, check, files, precisions, read, total, vector
from objective_views import loss, random

from isospace.errors import UserError
from isospace.objectives import SimCSE
from isospace.objectives.arccse import ArcCSE, triplet, with_margin


@precisions
@files("baselines/arccse_arccon")
def test_arccon_and_the_readings_of_its_negatives(path: Path, precision: str) -> None:
    file = read(path)
    constants = {"temperature": float(file["temperature"]), "margin": float(file["margin_u"])}
    inputs = {name: file[name] for name in ("z1", "z2")}
    readings = {"ref_": "other-view", "transposed_": "transposed", "samefirst_": "same-view"}
    for key, negatives in readings.items():
        objective = ArcCSE(negatives=negatives, **constants)  # type: ignore[arg-type]
        check(file, key, precision, inputs, lambda *z, o=objective: total(o, *z), rel=BASELINE)


@precisions
@files("baselines/arccse_edge")
def test_angles_from_nought_to_nearly_pi(path: Path, precision: str) -> None:
    file = read(path)
    constants = {"temperature": float(file["temperature"]), "margin": float(file["margin_u"])}
    inputs = {name: file[name] for name in ("z1", "z2")}
    forms = {
        "ref_": "paper",
        "easy_": "easy",
        "cut_at_pi_": "cut",
        "cut_with_penalty_": "penalty",
    }
    for key, far in forms.items():
        objective = ArcCSE(far=far, **constants)  # type: ignore[arg-type]
        check(file, key, precision, inputs, lambda *z, o=objective: total(o, *z), rel=BASELINE)


@precisions
@files("baselines/arccse_triplet")
def test_triplet(path: Path, precision: str) -> None:
    file = read(path)
    inputs = {name: file[name] for name in ("x", "x20", "x40")}
    for key, margin in (
        ("matching_rows_", float(file["margin"])),
        ("matching_rows_margin_0p1_", 0.1),
    ):
        check(
            file, key, precision, inputs, lambda *x, m=margin: triplet(*x, margin=m), rel=BASELINE
        )
    x, x20, x40 = (file[name].double() for name in inputs)
    alone = torch.stack(
        [triplet(x[i : i + 1], x20[i : i + 1], x40[i : i + 1]) for i in range(len(x))]
    )
    assert torch.equal(alone > 0, file["active"].bool())
    vector(alone.mean(), file["matching_rows_loss_f64"], 1e-10)


def test_without_margin_it_is_simcse() -> None:
    a, b = random(7, 5), random(7, 5, seed=1)
    assert loss(ArcCSE(margin=0.0), a, b) == pytest.approx(loss(SimCSE(), a, b))
    assert loss(ArcCSE(), a, a) > loss(SimCSE(), a, a)


def test_the_margin_turns_every_angle_and_equal_views_have_a_gradient() -> None:
    angles = torch.tensor([0.0, 1e-4, 0.3, 1.5, 2.9], dtype=torch.float64)
    x = torch.tensor([[1.0, 0.0]]).double().expand(5, 2)
    y = torch.stack([angles.cos(), angles.sin()], dim=1).requires_grad_()
    turned = with_margin(x, y, 0.2)
    torch.testing.assert_close(turned, (angles + 0.2).cos())
    turned.sum().backward()
    assert y.grad is not None
    torch.testing.assert_close(y.grad.norm(dim=1)[1:], (angles + 0.2).sin().abs()[1:])
    assert y.grad[0].isfinite().all()


def test_only_the_paper_s_margin_helps_a_positive_at_the_other_end() -> None:
    x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 1e-3]])
    cosine = -1.0 / math.hypot(1.0, 1e-3)
    values = {
        far: with_margin(x, y, 0.2, far).item() for far in ("paper", "easy", "cut", "penalty")
    }  # type: ignore[arg-type]
    assert values["paper"] > cosine + 0.01
    assert values["easy"] == values["cut"] == pytest.approx(cosine)
    assert values["penalty"] == pytest.approx(cosine - 0.2 * math.sin(0.2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 1.6}, "`margin` 1.6: expected less than 1.57"),
        ({"margin": -0.1}, "`margin` -0.1: expected 0 or more"),
    ],
)
def test_impossible_values_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ArcCSE(**options)
