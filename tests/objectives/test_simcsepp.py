"""SimCSE++ and its study of noise: what each part changes, what it leaves; golden files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from golden_files import check, files, precisions, read, scalar, total
from objective_views import loss, random
from torch.nn.functional import cross_entropy, normalize

from isospace.losses import diagonal_cross_entropy
from isospace.objectives import (
    DCL,
    NoiseStudy,
    OffDropout,
    SimCSEPP,
)
from isospace.operators.similarity import standardise


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
    scalar(diagonal_cross_entropy(a.T @ b / tau_d).sum(), file["paper_eq5_biased_loss_f64"], 1e-10)


def test_noise_study_changes_the_named_part_only() -> None:
    z1, z2, c1, c2 = (random(7, 5, seed=seed) for seed in range(4))
    plain = normalize(z1) @ normalize(z2).T / 0.05
    changed = normalize(c1) @ normalize(c2).T / 0.05
    for part, diagonal, rest in (("positives", changed, plain), ("negatives", plain, changed)):
        logits = rest.clone()
        logits.diagonal().copy_(diagonal.diagonal())
        expected = cross_entropy(logits, torch.arange(7)).item()
        objective = NoiseStudy(part=part, passes=1)  # type: ignore[arg-type]
        assert loss(objective, z1, z2, c1, c2) == pytest.approx(expected)


def test_means_are_taken_over_the_passes_of_one_view() -> None:
    z1, z2, *passes = (random(7, 5, seed=seed) for seed in range(8))
    first, second = sum(passes[:3]) / 3, sum(passes[3:]) / 3
    three = loss(NoiseStudy(passes=3), z1, z2, *passes)
    assert three == pytest.approx(loss(NoiseStudy(passes=1), z1, z2, first, second))
