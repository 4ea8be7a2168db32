"""VaSCL: the virtual view, what it trains, golden files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from golden_files import (
    BASELINE,
    DTYPES,
    SCALAR,
    File,
    check_gradient,
    files,
    leaf,
    precisions,
    read,
    scalar,
)
from objective_views import random

from isospace.objectives.heads import VirtualView
from isospace.objectives.vascl import VaSCL
from isospace.operators.similarity import nearest_others
from isospace.views import Views


def objective_of(file: File, **options: Any) -> VaSCL:
    return VaSCL(
        neighbours=int(file["topk"]),
        radius=float(file["eps"]),
        start_radius=float(file["xi"]),
        width=len(file["head_W2"]),
        temperature=float(file["temperature"]),
        **options,
    )


def head_of(file: File, objective: VaSCL, precision: str) -> VirtualView:
    """The head with the file's weights, whose first draw is the file's."""
    head = objective.build_head(file["e1"].shape[1], 0)
    assert isinstance(head, VirtualView)
    head.load_state_dict(
        {"layers.0.weight": file["head_W1"], "layers.2.weight": file["head_W2"]}, strict=False
    )
    return head.to(DTYPES[precision])


@precisions
@files("baselines/vascl")
def test_terms_and_the_step_of_virtual_views(path: Path, precision: str) -> None:
    file = read(path)
    objective = objective_of(file)
    head = head_of(file, objective, precision)
    e1, e2 = leaf(file["e1"], precision), leaf(file["e2"], precision)
    step = head.step(e1.detach(), file["start_uniform"].to(e1))
    limit = 1e-9 if precision == "f64" else 2e-4
    torch.testing.assert_close(step, file["official_delta_f64"].to(e1), rtol=0, atol=limit)
    nearest = nearest_others(e1.detach(), objective.neighbours)
    assert [row.nonzero().flatten().tolist() for row in nearest] == [
        sorted(row.tolist()) for row in file["neighbours_sorted"]
    ]

    views = torch.stack([head.project(x) for x in (e1, e2, e1.detach() + step)])
    terms = objective(Views(torch.stack([e1, e2]), views))
    rel = SCALAR["f64"] if precision == "f64" else BASELINE
    for term, key in (("nt_xent", "ntxent"), ("virtual", "virtual")):
        scalar(terms[term], file[f"official_{key}_f64"], rel)
    weights = {"head_W1": head.layers[0].weight, "head_W2": head.layers[2].weight}
    terms["virtual"].backward(retain_graph=True)
    assert e1.grad is not None
    assert not e1.grad.any()
    for name, weight in weights.items():
        check_gradient(file, f"official_virtual_grad_{name}", precision, weight)
    terms["nt_xent"].backward()
    for name, x in {"e1": e1, "e2": e2, **weights}.items():
        check_gradient(file, f"official_grad_{name}", precision, x)


@precisions
@files("baselines/vascl")
def test_virtual_views_train_the_encoder_where_nothing_is_held_constant(
    path: Path, precision: str
) -> None:
    file = read(path)
    objective = objective_of(file, stop_gradient=False)
    head = head_of(file, objective, precision)
    e1 = leaf(file["e1"], precision)
    step = head.step(e1.detach(), file["start_uniform"].to(e1))
    views = torch.stack([head.project(x) for x in (e1, e1, e1 + step)])
    objective(Views(torch.stack([e1, e1]), views))["virtual"].backward()
    check_gradient(file, "undetached_virtual_grad_e1", precision, e1)


def test_the_head_moves_every_sentence_by_the_radius_in_a_new_direction() -> None:
    encoded = random(2, 7, 32).float()
    head = VaSCL(radius=3.0, start_radius=0.1, temperature=1.0).build_head(32, 0)
    assert isinstance(head, VirtualView)
    lengths = head.step(encoded[0], random(7, 32, seed=2).float()).norm(dim=1)
    torch.testing.assert_close(lengths, torch.full((7,), 3.0), rtol=1e-3, atol=0)
    first, second = head(encoded), head(encoded)
    assert torch.equal(first[:2], second[:2])
    assert not torch.equal(first[2], second[2])
    torch.testing.assert_close(first.norm(dim=-1), torch.ones(3, 7))
