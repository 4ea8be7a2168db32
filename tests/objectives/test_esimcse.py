"""ESimCSE's loss and queue: golden files, and what falls out."""

from __future__ import annotations

from pathlib import Path

import torch
from golden_files import BASELINE, DTYPES, check, files, precisions, read, scalar
from objective_views import random

from isospace.objectives.esimcse import enqueue
from isospace.operators.similarity import info_nce


@precisions
@files("baselines/esimcse_loss")
def test_queue_negatives(path: Path, precision: str) -> None:
    file = read(path)
    tau, queue = float(file["temperature"]), file["queue"].to(DTYPES[precision])
    inputs = {name: file[name] for name in ("z1", "z2")}
    check(
        file, "official_", precision, inputs, lambda a, b: info_nce(a, b, tau, queue), rel=BASELINE
    )
    empty = info_nce(*(x.to(queue) for x in inputs.values()), tau, queue[:0])
    rel = 1e-10 if precision == "f64" else BASELINE
    scalar(empty, file["official_loss_empty_queue_f64"], rel)


def test_the_queue_grows_to_its_size_and_forgets_the_oldest() -> None:
    batches, queue = random(4, 3, 2).requires_grad_(), torch.empty(0, 2).double()
    for batch, length in zip(batches, (3, 6, 7, 7), strict=True):
        queue = enqueue(queue, batch, 7)
        assert len(queue) == length
        assert torch.equal(queue[-3:], batch)
    assert torch.equal(queue, batches.flatten(0, 1)[-7:])
    assert not queue.requires_grad
