"""PCL's terms: golden files, layout, what the slip of the release does."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from golden_files import BASELINE, check, files, precisions, read, scalar
from objective_views import random
from torch import Tensor

from isospace.objectives.pcl import disagreement, group_discrimination, group_logits
from isospace.operators.similarity import cosine_matrix, info_nce


def terms(tau: float, copies: int) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """All terms of the release, of (batch, 1 + copies, dim) as the files have it."""

    def logits(x: Tensor, y: Tensor) -> Tensor:
        return group_logits(x.transpose(0, 1), y.transpose(0, 1), tau)

    def group(x: Tensor) -> Tensor:
        return group_discrimination(logits(x, x), copies, "released")

    return {
        "infonce_p": lambda p, q: info_nce(p[:, 0], p[:, 1], tau),
        "infonce_q": lambda p, q: info_nce(q[:, 0], q[:, 1], tau),
        "group_bce_p": lambda p, q: group(p),
        "group_bce_q": lambda p, q: group(q),
        "kl_within": lambda p, q: disagreement(logits(p, p), logits(q, q)),
        "kl_cross": lambda p, q: disagreement(logits(p, q), logits(q, p)),
    }


@precisions
@files("baselines/pcl_terms")
def test_terms(path: Path, precision: str) -> None:
    file = read(path)
    tau, copies = float(file["temperature"]), int(file["num_copies"])
    inputs = {name: file[name] for name in ("p", "q")}
    for name, term in terms(tau, copies).items():
        check(file, f"{name}_", precision, inputs, term, rel=BASELINE)

    def on_probabilities(p: Tensor, q: Tensor) -> Tensor:
        views = p.transpose(0, 1)
        return group_discrimination(group_logits(views, views, tau), copies)

    key = "variant_bce_on_probabilities_"
    check(file, key, precision, inputs, on_probabilities, rel=BASELINE)
    p, q = (x.double().transpose(0, 1) for x in inputs.values())
    within, peer, cross, back = (
        group_logits(x, y, tau) for x, y in ((p, p), (q, q), (p, q), (q, p))
    )
    torch.testing.assert_close(within, file["rows_within_p_f64"], rtol=0, atol=1e-10)
    torch.testing.assert_close(cross, file["rows_p_to_q_f64_as_f32"].double(), rtol=1e-6, atol=0)
    for found, name in (
        (disagreement(within, peer, "rows"), "kl_within_row_sum"),
        (disagreement(peer, within), "kl_within_reversed"),
        (disagreement(cross, back, "rows"), "kl_cross_row_sum"),
    ):
        scalar(found, file[f"variant_{name}_loss_f64"], 1e-10)


@precisions
@files("baselines/pcl_loss")
def test_their_sum(path: Path, precision: str) -> None:
    file = read(path)
    parts = terms(float(file["temperature"]), int(file["num_copies"]))
    inputs = {name: file[name] for name in ("p", "q")}

    def loss(p: Tensor, q: Tensor) -> Tensor:
        return torch.stack([term(p, q) for term in parts.values()]).sum()

    def fixed_peer(p: Tensor, q: Tensor) -> Tensor:
        kept = [term(p, q.detach()) for name, term in parts.items() if not name.endswith("_q")]
        return torch.stack(kept).sum()

    check(file, "official_", precision, inputs, loss, rel=BASELINE)
    check(file, "official_fixed_peer_", precision, inputs, fixed_peer, rel=BASELINE)


def test_rows_are_the_own_copies_and_the_other_anchors_in_order() -> None:
    x, y = random(3, 4, 5), random(3, 4, 5, seed=1)
    rows = group_logits(x, y, 0.5)
    for i in range(4):
        candidates = [y[1, i], y[2, i], *(y[0, j] for j in range(4) if j != i)]
        expected = cosine_matrix(x[0, i : i + 1], torch.stack(candidates))[0] / 0.5
        torch.testing.assert_close(rows[i], expected)


def test_only_the_paper_s_group_term_can_be_small() -> None:
    """All copies found: one probability each; and with the slip, near log 2 for all that."""
    logits = torch.full((2, 8), -50.0).double()
    logits[:, 0] = 50.0
    assert group_discrimination(logits, 1).item() == pytest.approx(0, abs=1e-9)
    assert group_discrimination(logits, 1, "released").item() == pytest.approx(
        (math.log1p(math.exp(-1)) + 7 * math.log(2)) / 8
    )
    assert disagreement(logits, logits).item() == 0
    assert disagreement(logits, logits.flip(1), "rows") > 1
