"""MoCoSE against hand-made cases and against vectors of its authors' code."""

from __future__ import annotations

import pytest
import torch
from golden_files import BASELINE, check, files, precisions, read, vector
from torch import nn

from isospace.objectives.auxiliaries import Queue, follow
from isospace.objectives.heads import MomentumHead, seeded
from isospace.objectives.mocose import MoCoSE
from isospace.operators.similarity import cosine_matrix
from isospace.views import Views

NAMES = {
    "pooler_dense": "pooler",
    "projection_dense": "projection.0",
    "projection_LayerNorm": "projection.1",
    "predictor_mlp_mlp_0": "predictor.0.0",
    "predictor_mlp_layer_norm_0": "predictor.0.1",
    "predictor_dense": "predictor.1",
}
"""Layers of the released model and of ours."""


def head_of(golden, prefixes, objective):
    """Our head with the recorded weights; the copies are equal."""
    dim = len(golden[f"{prefixes[0]}pooler_dense_bias"])
    head = objective.build_head(dim, 0).double()
    weights = {}
    for theirs, ours in NAMES.items():
        prefix = prefixes[theirs.startswith("predictor")]
        for kind in ("weight", "bias"):
            weights[f"{ours}.{kind}"] = golden[f"{prefix}{theirs}_{kind}"].double()
    head.load_state_dict(weights, strict=False)
    follow(head.copied_pooler, head.pooler, 0.0)
    follow(head.copied_projection, head.projection, 0.0)
    return head


def test_momentum_rises_to_one_and_stays():
    ours = MoCoSE(momentum=0.75, momentum_updates=10)
    assert ours.momentum_at(5) == pytest.approx(0.875)
    assert ours.momentum_at(10) == ours.momentum_at(13) == 1.0


def test_head_dropout_scales_what_it_keeps():
    head = MomentumHead(2000, seeded(0), dropout=0.25, momentum=lambda update: 0.5)
    ones = torch.ones(1, 2000)
    dropped = head.projection[2](ones)
    assert sorted(dropped.unique().tolist()) == [0.0, pytest.approx(4 / 3)]
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.05)
    assert head.copied_projection[2].generator is head.generator


@precisions
@files("baselines/mocose_loss")
def test_loss_is_the_authors(path, precision):
    file = read(path)
    tau = float(file["temperature"])

    def loss(query, keys):
        queue = Queue(file["queue"].shape[1], query.shape[1], view=1, start=file["queue"].T)
        views = Views(torch.stack([query, keys]), torch.stack([query, keys]), {}, {"queue": queue})
        return MoCoSE(temperature=tau)(views)["info_nce"]

    inputs = {name: file[name] for name in ("query", "keys")}
    check(file, "official_", precision, inputs, loss, rel=BASELINE)
    query, keys, queue = (file[name].double() for name in ("query", "keys", "queue"))
    torch.testing.assert_close(
        cosine_matrix(query, torch.cat([keys, queue.T])) / tau,
        file["ref_logits_f64"],
        rtol=0,
        atol=1e-10,
    )


@files("baselines/mocose_heads")
def test_heads_are_the_authors(path):
    file = read(path)
    head = head_of(file, ("", ""), MoCoSE(head_dropout=0.0))
    hidden = file["hidden"].double().requires_grad_()
    query, key = head(torch.stack([hidden, hidden]))
    for found, name in (
        (head.pooler(hidden), "pooler"), (key, "projection"), (query, "predictor"),
    ):  # fmt: skip
        expected = file[f"official_{name}_out_f64"]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    (gradient,) = torch.autograd.grad((query * file["upstream"]).sum(), hidden)
    vector(gradient, file["official_grad_hidden_f64"], 1e-8)


@files("baselines/mocose_steps")
def test_the_followers_follow_as_the_authors(path):
    file = read(path)
    objective = MoCoSE(
        momentum=float(file["ema_decay_start"]), momentum_updates=int(file["ema_total_step"])
    )
    rows = file["ema_params_per_step"].double()
    original, copied = (nn.Linear(*rows.shape[:0:-1], bias=False).double() for _ in range(2))
    with torch.no_grad():
        copied.weight.copy_(rows[0])
        for update, (decay, expected) in enumerate(
            zip(file["ema_decay_per_step"], file["official_ema_after_step_f64"], strict=True), 1
        ):
            if update <= objective.momentum_updates:  # behind it the authors' falls again
                assert objective.momentum_at(update) == pytest.approx(float(decay), abs=1e-12)
            original.weight.copy_(rows[update])
            follow(copied, original, float(decay))
            torch.testing.assert_close(copied.weight, expected, rtol=0, atol=1e-10)
