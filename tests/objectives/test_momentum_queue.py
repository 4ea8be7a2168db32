"""ESimCSE and MoCoSE against hand-made cases and against vectors of their authors' code."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from golden_files import files, read, vector
from torch import nn

from isospace.objectives import ESimCSE, MoCoSE
from isospace.objectives.auxiliaries import Network, Queue, follow
from isospace.objectives.heads import MomentumHead, seeded
from isospace.views import Views


def queue_info_nce(z1, z2, negatives, *, temperature):
    queue = Queue(len(negatives), z1.shape[1], view=2).to(z1)
    queue.push(negatives)
    views = torch.stack([z1, z2, z1])
    objective = ESimCSE(temperature=temperature, head="none")
    return objective(Views(views, views, {}, {"queue": queue}))["info_nce"]


class Toy(nn.Module):
    """The encoder of the recorded steps: tanh(W mean of the embeddings of the tokens)."""

    def __init__(self, embeddings: np.ndarray, weight: np.ndarray) -> None:
        super().__init__()
        self.embeddings = nn.Parameter(torch.tensor(embeddings, dtype=torch.float64))
        self.weight = nn.Parameter(torch.tensor(weight, dtype=torch.float64))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weights = mask.double() / mask.sum(1, keepdim=True)
        mean = (self.embeddings[ids] * weights.unsqueeze(-1)).sum(1)
        return torch.tanh(mean @ self.weight.T)


@files("baselines/esimcse_steps")
def test_momentum_and_queue_are_the_authors_over_three_steps(path):
    golden = {name: array.numpy() for name, array in read(path).items()}
    encoder = Toy(golden["emb0"], golden["W0"])
    head = nn.Linear(*golden["mlp_weight0"].shape[::-1]).double()
    head.load_state_dict(
        {key: torch.tensor(golden[f"mlp_{key}0"]).double() for key in ("weight", "bias")}
    )
    momentum = Network(
        Toy(golden["momentum_emb0"], golden["momentum_W0"]), momentum=float(golden["momentum"])
    )
    queue = Queue(int(golden["queue_size"]), head.out_features, view=2).double()
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=float(golden["lr_sgd"]))
    nothing = torch.zeros(1, 2, 1)
    # The release follows the encoder before a step, which is after the one before it.
    momentum.after_update(encoder, Views(nothing, nothing))
    for step, (ids, mask) in enumerate(
        zip(golden["input_ids"], golden["attention_mask"], strict=True)
    ):
        batch = [(torch.tensor(ids[:, v]), torch.tensor(mask[:, v])) for v in (0, 1)]
        with torch.no_grad():
            third = momentum.encoder(*batch[0])
        encoded = torch.stack([encoder(*batch[0]), encoder(*batch[1]), third])
        projected = torch.tanh(head(encoded))
        loss = queue_info_nce(
            projected[0], projected[1], queue.rows, temperature=float(golden["temperature"])
        )
        assert float(loss.detach()) == pytest.approx(
            float(golden["official_loss_f64"][step]), rel=1e-10
        )
        expected = golden["official_momentum_W_after_forward_f64"][step]
        np.testing.assert_allclose(momentum.encoder.weight.numpy(), expected, atol=1e-10)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        views = Views(encoded.detach(), projected.detach())
        queue.after_update(encoder, views)
        momentum.after_update(encoder, views)
        expected = golden[f"official_queue_after_step{step + 1}_f64"]
        np.testing.assert_allclose(queue.rows.numpy(), expected, atol=1e-10)
        expected = golden["official_W_after_sgd_f64"][step]
        np.testing.assert_allclose(encoder.weight.detach().numpy(), expected, atol=1e-10)


NAMES = {
    "pooler_dense": "pooler",
    "projection_dense": "projection.0",
    "projection_LayerNorm": "projection.1",
    "predictor_mlp_mlp_0": "predictor.0.0",
    "predictor_mlp_layer_norm_0": "predictor.0.1",
    "predictor_dense": "predictor.1",
}
"""Layers of the released model and of ours."""


def head_of(golden):
    """Our head with the recorded weights; the copies are equal."""
    head = MoCoSE(head_dropout=0.0).build_head(len(golden["pooler_dense_bias"]), 0).double()
    weights = {
        f"{ours}.{kind}": golden[f"{theirs}_{kind}"].double()
        for theirs, ours in NAMES.items()
        for kind in ("weight", "bias")
    }
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


@files("baselines/mocose_heads")
def test_heads_are_the_authors(path):
    file = read(path)
    head = head_of(file)
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
