"""ConSERT's loss is NT-Xent, which the release weights: golden files."""

from __future__ import annotations

from pathlib import Path

from golden_files import BASELINE, check, files, precisions, read
from torch import Tensor

from isospace.operators.similarity import nt_xent


@precisions
@files("baselines/consert_ntxent")
def test_nt_xent(path: Path, precision: str) -> None:
    file = read(path)
    tau = float(file["temperature"])
    inputs = {name: file[name] for name in ("z1", "z2")}
    # The released code adds the means of the two directions.
    weights = {"official_": 2 * float(file["loss_rate"]), "paper_": 1.0}
    for key, weight in weights.items():

        def loss(z1: Tensor, z2: Tensor, weight: float = weight) -> Tensor:
            return weight * nt_xent(z1, z2, tau)

        check(file, key, precision, inputs, loss, rel=BASELINE)
