"""DCLR's terms: golden files, what a weight of 0 means, saturated float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from golden_files import BASELINE, DTYPES, File, check, files, precisions, read, scalar, vector
from objective_views import random
from torch import Tensor

from isospace.objectives.dclr import ascend, debiased_contrast, true_negatives
from isospace.operators.similarity import info_nce

VARIANTS = {
    "official_": "released",
    "paper_posdenom_": "paper",
    "paper_noposdenom_": "paper-others",
}


def moved(file: File, precision: str, steps: int) -> Tensor:
    noise, z1, z2 = (file[k].to(DTYPES[precision]) for k in ("noise0", "z1", "z2"))
    options = {"temperature": float(file["temperature"]), "size": float(file["step_size"])}
    return ascend(noise, z1, z2, steps=steps, **options)  # type: ignore[arg-type]


@precisions
@files("baselines/dclr")
def test_weighted_negatives_and_noise(path: Path, precision: str) -> None:
    file = read(path)
    tau, steps = float(file["temperature"]), int(file["pgd_steps"])
    assert len(file["noise0"]) == int(float(file["noise_times"]) * len(file["z1"]))
    noise, limit = moved(file, precision, steps), 1e-12 if precision == "f64" else 2e-6
    for found, key in ((noise, "official_noise_final"), (noise, "noise_final_ref")):
        torch.testing.assert_close(found.double(), file[f"{key}_f64"], rtol=0, atol=limit)
    first = moved(file, precision, 1).double()
    torch.testing.assert_close(first, file["official_noise_step1_f64"], rtol=0, atol=limit)

    weights = true_negatives(file["frozen1"], file["frozen2"], float(file["phi"]))
    assert torch.equal(weights, file["weights_in_batch"].float())
    assert torch.equal((weights == 0).nonzero(), file["masked_pairs"])
    inputs = {name: file[name] for name in ("z1", "z2")}
    for key, variant in VARIANTS.items():

        def loss(z1: Tensor, z2: Tensor, variant: str = variant) -> Tensor:
            w = weights.to(z1)
            return debiased_contrast(z1, z2, noise, w, temperature=tau, variant=variant)  # type: ignore[arg-type]

        check(file, key, precision, inputs, loss, rel=BASELINE)
        if variant == "released":
            z1, z2 = (x.to(noise) for x in inputs.values())
            rel = 1e-10 if precision == "f64" else BASELINE
            scalar(loss(z1, z2, "logit-weight"), file["logitweight_ce_loss_f64"], rel)


@files("baselines/dclr")
def test_the_loss_rises_at_every_step(path: Path) -> None:
    file = read(path)
    z1, z2 = file["z1"].double(), file["z2"].double()
    losses = [
        info_nce(z1, z2, float(file["temperature"]), moved(file, "f64", steps))
        for steps in range(int(file["pgd_steps"]))
    ]
    vector(torch.stack(losses), file["official_infonce_before_step_f64"], 1e-10)
    assert losses == sorted(losses)


def test_without_false_negatives_every_reading_of_the_weights_is_info_nce() -> None:
    z1, z2, noise = random(6, 4), random(6, 4, seed=1), random(3, 4, seed=2)
    ones, tau = torch.ones(6, 6).double(), 0.1
    plain = info_nce(z1, z2, tau, noise)
    for variant in ("paper", "logit-weight"):
        found = debiased_contrast(z1, z2, noise, ones, temperature=tau, variant=variant)  # type: ignore[arg-type]
        torch.testing.assert_close(found, plain)


def test_a_weight_of_nought_removes_a_negative_in_the_paper_and_not_in_the_release() -> None:
    z1, z2, noise = random(6, 4), random(6, 4, seed=1), random(3, 4, seed=2)
    weights = torch.ones(6, 6).double()
    weights[0, 1] = 0.0
    elsewhere = z2.clone()
    elsewhere[1] = 5 * z1[0]
    losses = {
        variant: [
            debiased_contrast(z1[:1], z, noise, weights[:1], temperature=0.1, variant=variant)  # type: ignore[arg-type]
            for z in (z2, elsewhere)
        ]
        for variant in ("paper", "logit-weight")
    }
    for one, other in losses.values():
        torch.testing.assert_close(one, other)
    assert losses["logit-weight"][0] > losses["paper"][0]


@pytest.mark.parametrize("variant", ["paper", "paper-others", "logit-weight", "released"])
def test_saturated_float32_stays_finite(variant: str) -> None:
    z1 = torch.eye(2, 16).requires_grad_()
    noise = -torch.ones(8, 16)
    loss = debiased_contrast(
        z1,
        z1,
        noise,
        torch.ones(2, 2),
        temperature=0.01,
        variant=variant,  # type: ignore[arg-type]
    )
    loss.backward()
    assert loss.isfinite()
    assert z1.grad is not None
    assert z1.grad.isfinite().all()
