"""SCD: its two terms, both readings of the paper, golden files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from golden_files import check, files, leaf, precisions, read, scalar, vector
from torch import Tensor, nn
from torch.nn.functional import normalize

from isospace.losses.correlation import decorrelation, diagonal_terms, unit_columns
from isospace.objectives import (
    SCD,
)
from isospace.objectives.heads import Projector, seeded
from isospace.operators.similarity import centre, cosine_pairs, standardise
from isospace.views import Views


@precisions
@files("scd_loss")
def test_scd_as_released(path: Path, precision: str) -> None:
    file = read(path)
    objective = SCD(
        self_contrast_weight=float(file["task_alpha"]),
        decorrelation_weight=float(file["task_beta"]),
        off_diagonal_weight=float(file["task_lambda"]),
        temperature=float(file["temperature"]),
    )
    inputs = {name: file[name] for name in ("hA", "hB", "pA", "pB")}

    def loss(h_a: Tensor, h_b: Tensor, p_a: Tensor, p_b: Tensor) -> Tensor:
        terms = objective(Views(torch.stack([h_a, h_b]), torch.stack([p_a, p_b])))
        parts = {
            "self_contrast": terms["self_contrast"],
            "on_diag": terms["on_diagonal"] / objective.decorrelation_weight,
            "off_diag": terms["off_diagonal"]
            / (objective.decorrelation_weight * objective.off_diagonal_weight),
        }
        for name, value in parts.items():
            scalar(value, file[f"official_{name}_f64"], 1e-10 if precision == "f64" else 1e-5)
        return torch.stack(list(terms.values())).sum()

    check(file, "official_", precision, inputs, loss)
    normalised = standardise(file["pA"].double(), eps=float(file["bn_eps"]))
    torch.testing.assert_close(normalised, file["official_bn_pA_f64"], rtol=0, atol=1e-10)


@files("scd_loss")
@pytest.mark.parametrize("sign", ["plus", "minus_as_printed"])
@pytest.mark.parametrize("centring", ["raw", "centred"])
@pytest.mark.parametrize("form", ["barlow", "printed"])
def test_scd_as_readings_of_the_paper(path: Path, form: str, centring: str, sign: str) -> None:
    file = read(path)
    key = f"paper_{form}_{centring}"
    alpha, weight = float(file["paper_alpha"]), float(file["paper_lambda"])
    p_a, p_b = leaf(file["pA"], "f64"), leaf(file["pB"], "f64")
    a, b = (p_a, p_b) if centring == "raw" else (centre(p_a), centre(p_b))
    c = (
        (a.T @ b) / (a.square().T @ b.square()).sqrt()
        if form == "printed"
        else normalize(a, dim=0).T @ normalize(b, dim=0)
    )
    if key == "paper_barlow_centred":
        expected = unit_columns(p_a).T @ unit_columns(p_b)
        torch.testing.assert_close(c, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(c, file[f"{key}_C_f64"], rtol=0, atol=1e-10)
    on, off = diagonal_terms(c)
    scalar(on, file[f"{key}_on_f64"], 1e-10)
    scalar(off, file[f"{key}_off_f64"], 1e-10)
    decorrelation = (on if sign == "plus" else -on) + weight * off
    scalar(decorrelation, file[f"{key}_{sign}_LC_f64"], 1e-10)
    h_a, h_b = leaf(file["hA"], "f64"), leaf(file["hB"], "f64")
    contrast = cosine_pairs(h_a, h_b).mean()
    scalar(contrast, file["paper_LS_f64"], 1e-10)
    loss = contrast + alpha * decorrelation
    scalar(loss, file[f"{key}_{sign}_L_f64"], 1e-10)
    loss.backward()
    vector(p_a.grad, file[f"{key}_{sign}_grad_pA_f64"], 1e-8)
    if sign == "plus":
        vector(p_b.grad, file[f"{key}_plus_grad_pB_f64"], 1e-8)
    vector(h_a.grad, file["paper_grad_LS_hA_f64"], 1e-8)
    vector(h_b.grad, file["paper_grad_LS_hB_f64"], 1e-8)


@files("scd_loss")
@pytest.mark.parametrize(
    ("variant", "key"),
    [("released", "barlow_centred_plus"), ("printed", "printed_raw_minus_as_printed")],
)
def test_decorrelation_has_both_readings(path: Path, variant: str, key: str) -> None:
    file = read(path)
    p = (file[f"p{view}"].double() for view in "AB")
    on, off = decorrelation(*p, eps=0.0, variant=variant)  # type: ignore[arg-type]
    loss = on + float(file["paper_lambda"]) * off
    scalar(loss, file[f"paper_{key}_LC_f64"], 1e-10)


@files("scd_projector")
def test_scd_projector(path: Path) -> None:
    file = read(path)
    weights = [file[f"layer{i}_linear_weight"] for i in (0, 3, 6)]
    widths = [len(weight) for weight in weights]
    head = Projector(weights[0].shape[1], seeded(0), widths=widths, first_bias=True)
    for i, weight in zip((0, 3, 6), weights, strict=True):
        head.layers[i].weight.data.copy_(weight)
    head.layers[0].bias.data.copy_(file["layer0_linear_bias"])
    head.double()
    h = leaf(torch.stack([file["hA"], file["hB"]]), "f64")
    p = head(h)
    expected = torch.stack([file["pA_f64"], file["pB_f64"]])
    torch.testing.assert_close(p, expected, rtol=0, atol=1e-9)
    (p[0] * file["upstream"]).sum().backward()
    vector(h.grad[0], file["grad_hA_f64"], 1e-8)
    for i in (1, 4):
        norm = head.layers[i]
        assert isinstance(norm, nn.BatchNorm1d)
        for name in ("mean", "var"):
            recorded = file[f"layer{i}_bn_running_{name}_after_both"]
            running = getattr(norm, f"running_{name}")
            torch.testing.assert_close(running, recorded, rtol=0, atol=1e-10)
