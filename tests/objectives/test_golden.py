"""Objectives against reference numbers, values and gradients (see golden_files.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from golden_files import SCALAR, check, files, leaf, precisions, read, scalar, total, vector
from torch import Tensor, nn
from torch.nn.functional import normalize

from isospace.objectives import DCL, SCD, OffDropout, RankStudy, SimCSE, SimCSEPP, WhitenedCSE
from isospace.objectives.barlow_twins import (
    correlation_terms,
    diagonal_terms,
    unit_columns,
)
from isospace.objectives.base import Views
from isospace.objectives.heads import ArtificialRows, GroupWhitening, Projector, seeded
from isospace.objectives.scd import printed_correlation
from isospace.operators.similarity import (
    centre,
    cosine_matrix,
    cosine_pairs,
    softmax_losses,
    standardise,
)


@precisions
@files("infonce")
def test_info_nce(path: Path, precision: str) -> None:
    file = read(path)
    triples = "z3" in file
    objective = SimCSE(
        temperature=float(file["temperature"]),
        supervision="triples" if triples else "none",
        hard_negative_weight=float(file.get("hard_negative_weight", 0.0)),
    )
    inputs = {name: file[name] for name in ("z1", "z2", "z3") if name in file}
    check(file, "", precision, inputs, lambda *z: total(objective, *z))
    if "logits_f64" in file:
        logits = cosine_matrix(file["z1"].double(), file["z2"].double()) / objective.temperature
        torch.testing.assert_close(logits, file["logits_f64"], rtol=0, atol=1e-9)


@precisions
@files("whitenedcse_multipos")
def test_several_positives(path: Path, precision: str) -> None:
    file = read(path)
    m = int(file["num_positives"])
    inputs = {name: file[name] for name in ["h", *(f"p{i}" for i in range(1, m + 1))]}
    forms = {"eq7": "l1", "eq8_plus": "l2-plus", "eq8_printed": "l2-printed", "official": "l1"}
    for key, form in forms.items():
        for weight_key, weight in (("_lambda1_", 1.0), ("_lambda_1_over_m_", 1 / m), ("_", 1.0)):
            if f"{key}{weight_key}loss_f64" in file:
                objective = WhitenedCSE(
                    num_views=m + 1,
                    loss=form,  # type: ignore[arg-type]
                    positive_weight=weight,
                    temperature=float(file["temperature"]),
                )
                check(
                    file, key + weight_key, precision, inputs, lambda *z, o=objective: total(o, *z)
                )


@precisions
@files("whitenedcse_head")
@pytest.mark.parametrize("arrangement", ["viewwise", "interleaved_as_released"])
@pytest.mark.parametrize("stop_gradient", [True, False])
def test_whitening_head(
    path: Path,
    arrangement: str,
    stop_gradient: bool,
    precision: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = read(path)
    permutations = torch.stack([file[f"perm{i}"] for i in (1, 2, 3)])
    monkeypatch.setattr(GroupWhitening, "draw_permutations", lambda self, views: permutations)
    objective = WhitenedCSE(
        num_views=file["cls"].shape[1],
        groups=int(file["groups"]),
        temperature=float(file["temperature"]),
        variant="paper" if arrangement == "viewwise" else "released",
        stop_gradient=stop_gradient,
        eps=0.0,
    )
    head = objective.build_head(file["cls"].shape[2], seed=0)
    dense = head[1].dense
    dense.load_state_dict({"weight": file["dense_weight"], "bias": file["dense_bias"]})
    cls = leaf(file["cls"], precision)
    encoded = cls.transpose(0, 1)
    loss = total(objective, *head.to(cls.dtype)(encoded))
    scalar(loss, file[f"{arrangement}_loss_{precision}"], SCALAR[precision])
    loss.backward()
    detached, full = f"{arrangement}_grad_cls_detachedW", f"{arrangement}_grad_cls_fullW"
    recorded = [f"{full}_f64_as_f32"]
    if stop_gradient:
        recorded = [f"{detached}_f64_as_f32", f"{detached}_f32"]
    for key in recorded:
        vector(cls.grad, file[key], 1e-5 if stop_gradient else 1e-4)
    vector(dense.weight.grad, file[f"{arrangement}_grad_dense_weight_f32"], 1e-5)
    vector(dense.bias.grad, file[f"{arrangement}_grad_dense_bias_f32"], 1e-5)


@precisions
@files("scd_loss")
def test_scd_as_released(path: Path, precision: str) -> None:
    file = read(path)
    objective = SCD(
        self_contrast_weight=float(file["task_alpha"]),
        decorrelation_weight=float(file["task_beta"]),
        off_diagonal_weight=float(file["task_lambda"]),
        temperature=float(file["temperature"]),
        eps=float(file["bn_eps"]),
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
        printed_correlation(a, b)
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
def test_scd_class_has_both_readings(path: Path, variant: str, key: str) -> None:
    file = read(path)
    objective = SCD(
        decorrelation_weight=float(file["paper_alpha"]),
        off_diagonal_weight=float(file["paper_lambda"]),
        variant=variant,  # type: ignore[arg-type]
        eps=0.0,
    )
    h, p = (torch.stack([file[k + "A"], file[k + "B"]]).double() for k in "hp")
    loss = torch.stack(list(objective(Views(h, p)).values())).sum()
    scalar(loss, file[f"paper_{key}_L_f64"], 1e-10)


@files("scd_projector")
def test_scd_projector(path: Path) -> None:
    file = read(path)
    weights = [file[f"layer{i}_linear_weight"] for i in (0, 3, 6)]
    widths = [len(weight) for weight in weights]
    head = Projector(weights[0].shape[1], widths, seeded(0), first_bias=True)
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


@precisions
@files("simcsepp_offdropout")
@pytest.mark.parametrize("variant", ["released", "paper"])
def test_off_dropout(path: Path, variant: str, precision: str) -> None:
    file = read(path)
    tau, m = float(file["temperature"]), float(file["m"])
    inputs = {name: file[name] for name in ("z1", "z2", "z0")}
    key = "official_" if variant == "released" else "paper_"
    objective = OffDropout(temperature=tau, m=m, variant=variant)  # type: ignore[arg-type]
    check(file, key, precision, inputs, lambda *z: total(objective, *z))
    if variant == "released":
        plain = OffDropout(temperature=tau, m=1.0)
        check(file, "official_m1_", precision, inputs, lambda *z: total(plain, *z))


@precisions
@files("simcsepp_dcl")
def test_dimension_contrast(path: Path, precision: str) -> None:
    file = read(path)
    tau, weight = float(file["temperature"]), float(file["lambda_dcl"])
    tau_d, m = float(file["tau_dcl"]), float(file["m"])
    two = {name: file[name] for name in ("z1", "z2")}
    three = {**two, "z0": file["z0"]}
    alone = {"contrast_weight": 0.0, "dimension_weight": 1.0}
    both = {"temperature": tau, "dimension_weight": weight}
    cases = {
        "official_dcl_tau5_": DCL(**alone, dimension_temperature=5.0),
        "official_dcl_tau10_": DCL(**alone, dimension_temperature=10.0),
        "official_infonce_plus_0p1_dcl_tau10_": DCL(**both, dimension_temperature=10.0),
        "paper_eq5_unbiased_": DCL(**alone, dimension_temperature=tau_d, variant="paper"),
        "combo_official_offdropout_m09_plus_0p1_dcl_tau5_": SimCSEPP(
            **both, m=m, dimension_temperature=tau_d
        ),
        "combo_paper_offdropout_m09_plus_0p1_dcl_eq5_": SimCSEPP(
            **both, m=m, dimension_temperature=tau_d, variant="paper"
        ),
    }
    for key, objective in cases.items():
        inputs = three if key.startswith("combo") else two
        check(file, key, precision, inputs, lambda *z, o=objective: total(o, *z), rel=1e-5)
    a, b = (standardise(z.double(), ddof=0) for z in two.values())
    scalar(softmax_losses(a.T @ b / tau_d).sum(), file["paper_eq5_biased_loss_f64"], 1e-10)


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

    plain = RankStudy(
        rows=rows, barlow_weight=1.0, off_diagonal_weight=weight, eps=float(file["eps"])
    )
    official = RankStudy(rows=rows, barlow_weight=1.0)
    check(file, "same_noise_", precision, inputs, same_noise(plain), rel=1e-5)
    key = "official_lambda012_same_noise_"
    check(file, key, precision, inputs, same_noise(official), rel=1e-5)
    if "independent_noise_loss_f64" in file:

        def independent(a: Tensor, b: Tensor) -> Tensor:
            padded = (torch.cat([z, file[k].to(z)]) for z, k in ((a, "gauss_A"), (b, "gauss_B")))
            columns = (unit_columns(z, eps=float(file["eps"])) for z in padded)
            on, off = correlation_terms(*columns)
            return on + weight * off

        check(file, "independent_noise_", precision, inputs, independent, rel=1e-5)
