"""SimCSE: special cases, a case by hand, golden files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from golden_files import check, files, precisions, read, total
from objective_views import looped_info_nce, loss, random
from torch.nn.functional import cross_entropy, normalize

from isospace.objectives import (
    SimCSE,
)
from isospace.operators.similarity import cosine_matrix
from isospace.views import View


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


def test_simcse_is_a_cross_entropy_in_one_direction() -> None:
    a, b = random(7, 5), random(7, 5, seed=1)
    assert loss(SimCSE(), a, b) == pytest.approx(looped_info_nce(a, b, 0.05))
    assert loss(SimCSE(), a, b) != pytest.approx(loss(SimCSE(), b, a))


def test_triples_without_weight_are_a_cross_entropy_of_twice_the_width() -> None:
    a, b, c = random(6, 4), random(6, 4, seed=1), random(6, 4, seed=2)
    logits = normalize(a) @ normalize(torch.cat([b, c])).T / 0.05
    expected = cross_entropy(logits, torch.arange(6)).item()
    assert loss(SimCSE(supervision="triples"), a, b, c) == pytest.approx(expected)
    assert loss(SimCSE(supervision="pairs"), a, b) == pytest.approx(loss(SimCSE(), a, b))
    heavier = SimCSE(supervision="triples", hard_negative_weight=1.0)
    assert loss(heavier, a, b, c) > expected


def test_supervision_reads_the_texts_of_an_example() -> None:
    assert SimCSE().views == (View(), View())
    assert SimCSE(supervision="pairs").views == (View(), View(text=1))
    assert SimCSE(supervision="triples").views == (View(), View(text=1), View(text=2))
    assert [SimCSE(supervision=s).texts for s in ("none", "pairs", "triples")] == [1, 2, 3]
