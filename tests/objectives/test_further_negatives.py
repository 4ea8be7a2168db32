"""Further negatives: noise, mixes and hardened noise against vectors of their authors' code."""

from __future__ import annotations

from pathlib import Path

import torch
from golden_files import BASELINE, DTYPES, check, files, precisions, read, scalar, total
from objective_views import random
from torch import Tensor, nn

from isospace.losses import (
    hardened_noise,
    info_nce,
    mix,
    negative_weights,
    weighted_cross_entropy,
)
from isospace.objectives import DCLR, GSInfoNCE, MixCSE
from isospace.objectives.auxiliaries import Network
from isospace.operators.similarity import cosine_matrix
from isospace.views import Views


def packed(noise: Tensor, batch: int) -> list[Tensor]:
    """The noise as the head hands it on: views of `batch` rows, the last one padded."""
    views = noise.new_zeros(-(-len(noise) // batch) * batch, noise.shape[1])
    views[: len(noise)] = noise
    return list(views.split(batch))


@precisions
@files("baselines/gs_infonce")
def test_noise_negatives(path: Path, precision: str) -> None:
    file = read(path)
    noise, tau = file["noise"], float(file["temperature"])
    assert len(noise) == int(file["random_size"])
    objective = GSInfoNCE(temperature=tau, noise_rows=len(noise))
    inputs = {name: file[name] for name in ("z1", "z2")}

    def value(z1: Tensor, z2: Tensor, times: float = 1.0) -> Tensor:
        return total(objective, z1, z2, *packed(times * noise.to(z1), len(z1)))

    check(file, "official_", precision, inputs, value, rel=BASELINE)
    louder = value(file["z1"].double(), file["z2"].double(), times=7.0)
    scalar(louder, file["ref_loss_noise_times_7_f64"], 1e-10)


@precisions
@files("baselines/mixcse")
def test_mixed_negatives(path: Path, precision: str) -> None:
    file = read(path)
    weight, tau = float(file["lambda_mix"]), float(file["temperature"])
    inputs = {name: file[name] for name in ("z1", "z2")}
    for variant, key in (
        ("released", "official_"),
        ("masked", "code_masked_neg_inf_"),
        ("paper", "paper_unitmix_"),
    ):
        objective = MixCSE(temperature=tau, mix_weight=weight, variant=variant)  # type: ignore[arg-type]
        check(file, key, precision, inputs, lambda *z, o=objective: total(o, *z), rel=BASELINE)
    for name in ("z1", "z2"):
        torch.testing.assert_close(mix(file[name].double(), weight), file[f"mix_of_{name}"])


def see(objective, *views):
    encoded = torch.stack(views)
    return Views(encoded, encoded, {}, objective.build_auxiliaries(nn.Linear(1, 1), 0))


def test_the_complementary_network_stays_as_the_start_was():
    encoder = nn.Linear(3, 3)
    frozen = DCLR().build_auxiliaries(encoder, 0)["frozen"]
    assert isinstance(frozen, Network)
    start = frozen.encoder.weight.clone()
    with torch.no_grad():
        encoder.weight.zero_()
    frozen.after_update(encoder, see(DCLR(), *random(3, 2, 3)))
    assert torch.equal(frozen.encoder.weight, start)


def hardened(file, z1, z2, steps):
    return hardened_noise(
        file["noise0"].to(z1),
        z1,
        z2,
        temperature=float(file["temperature"]),
        steps=steps,
        step_size=float(file["step_size"]),
    )


@precisions
@files("baselines/dclr")
def test_noise_is_the_authors(path, precision):
    file = read(path)
    z1, z2 = (file[name].to(DTYPES[precision]) for name in ("z1", "z2"))
    steps = int(file["pgd_steps"])
    limit = {"f64": 1e-12, "f32": 2e-6}[precision]
    keys = ("official_noise_step1_f64", "official_noise_final_f64", "noise_final_ref_f64")
    for count, key in zip((1, steps, steps), keys, strict=True):
        found = hardened(file, z1, z2, count).double()
        torch.testing.assert_close(found, file[key], rtol=0, atol=limit)
    for step, expected in enumerate(file["official_infonce_before_step_f64"]):
        noise = hardened(file, z1, z2, step)
        relative = {"f64": 1e-10, "f32": BASELINE}[precision]
        scalar(info_nce(z1, z2, float(file["temperature"]), noise), expected, relative)


@files("baselines/dclr")
def test_weights_are_the_authors(path):
    file = read(path)
    weights = negative_weights(file["frozen1"], file["frozen2"], float(file["phi"]))
    assert weights.tolist() == file["weights_in_batch"].tolist()
    assert (weights == 0).nonzero().tolist() == file["masked_pairs"].tolist()


@precisions
@files("baselines/dclr")
def test_loss_is_the_authors(path, precision):
    file = read(path)
    tau, steps = float(file["temperature"]), int(file["pgd_steps"])
    weights = file["weights_in_batch"]

    def logits(z1, z2):
        found = cosine_matrix(z1, torch.cat([z2, hardened(file, z1, z2, steps)])) / tau
        if precision == "f64" and "official_logits_f64" in file:
            expected = file["official_logits_f64"]
            torch.testing.assert_close(found.detach(), expected, rtol=0, atol=1e-10)
        return found

    def released(z1, z2):
        return weighted_cross_entropy(logits(z1, z2), weights.to(z1), released=True)

    def paper(z1, z2):
        return weighted_cross_entropy(logits(z1, z2), weights.to(z1)).mean()

    inputs = {name: file[name] for name in ("z1", "z2")}
    for key, loss in (
        ("official_", released),
        ("paper_posdenom_", paper),
    ):
        check(file, key, precision, inputs, loss, rel=BASELINE)
