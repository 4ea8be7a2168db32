"""SimCSE: special cases, a case by hand, golden files."""

from __future__ import annotations

from pathlib import Path

import torch
from golden_files import check, files, precisions, read, total

from isospace.objectives import (
    SimCSE,
)
from isospace.operators.similarity import cosine_matrix


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
