"""GS-InfoNCE: noise as negatives, golden files."""

from __future__ import annotations

from pathlib import Path

from golden_files import BASELINE, check, files, precisions, read, scalar, total
from torch import Tensor

from isospace.objectives.gs_infonce import GSInfoNCE


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
