"""Heads and auxiliary networks give the values and gradients of the authors' code."""

import pytest
import torch
from golden_files import (
    BASELINE,
    DTYPES,
    SCALAR,
    check,
    check_gradient,
    files,
    leaf,
    precisions,
    read,
    scalar,
    total,
    vector,
)
from objective_views import random
from torch import nn

from isospace.objectives import ISBERT, ESimCSE, MoCoSE, PromptBERT, VaSCL, WhitenedCSE
from isospace.objectives.auxiliaries import Network, Queue, follow
from isospace.objectives.decoders import Convolutions
from isospace.objectives.heads import Differences, MomentumHead, Projector, TanhMLP, seeded
from isospace.operators.similarity import nearest_others
from isospace.views import TokenStates, Views

# The papers' heads


@precisions
@files("whitenedcse_head")
@pytest.mark.parametrize("arrangement", ["viewwise", "interleaved_as_released"])
@pytest.mark.parametrize("stop_gradient", [True, False])
def test_whitening_of_whitenedcse(path, arrangement, stop_gradient, precision, monkeypatch):
    file = read(path)
    drawn = iter([file[f"perm{i}"] for i in (1, 2, 3)])
    monkeypatch.setattr(torch, "randperm", lambda *_, **__: next(drawn))
    objective = WhitenedCSE(
        num_views=file["cls"].shape[1],
        groups=int(file["groups"]),
        temperature=float(file["temperature"]),
        variant="paper" if arrangement == "viewwise" else "released",
        stop_gradient=stop_gradient,
        eps=0.0,
    )
    head = objective.build_head(file["cls"].shape[2], seed=0)
    dense = head[1].dense
    dense.load_state_dict({"weight": file["dense_weight"], "bias": file["dense_bias"]})
    cls = leaf(file["cls"], precision)
    loss = total(objective, *head.to(cls.dtype)(cls.transpose(0, 1)))
    scalar(loss, file[f"{arrangement}_loss_{precision}"], SCALAR[precision])
    loss.backward()
    if stop_gradient:
        vector(cls.grad, file[f"{arrangement}_grad_cls_detachedW_f64_as_f32"], 1e-5)
    else:
        vector(cls.grad, file[f"{arrangement}_grad_cls_fullW_f64_as_f32"], 1e-4)
    for name, parameter in dense.named_parameters():
        vector(parameter.grad, file[f"{arrangement}_grad_dense_{name}_f32"], 1e-5)


@files("scd_projector")
def test_projector_of_scd(path):
    file = read(path)
    weights = [file[f"layer{i}_linear_weight"] for i in (0, 3, 6)]
    widths = [len(weight) for weight in weights]
    head = Projector(weights[0].shape[1], seeded(0), widths=widths, first_bias=True)
    for i, weight in zip((0, 3, 6), weights, strict=True):
        head.layers[i].weight.data.copy_(weight)
    head.layers[0].bias.data.copy_(file["layer0_linear_bias"])
    h = leaf(torch.stack([file["hA"], file["hB"]]), "f64")
    p = head.double()(h)
    expected = torch.stack([file["pA_f64"], file["pB_f64"]])
    torch.testing.assert_close(p, expected, rtol=0, atol=1e-9)
    (p[0] * file["upstream"]).sum().backward()
    vector(h.grad[0], file["grad_hA_f64"], 1e-8)
    for i in (1, 4):  # each view has batch statistics of its own
        for name in ("mean", "var"):
            recorded = file[f"layer{i}_bn_running_{name}_after_both"]
            running = getattr(head.layers[i], f"running_{name}")
            torch.testing.assert_close(running, recorded, rtol=0, atol=1e-10)


# ESimCSE and MoCoSE


class Toy(nn.Module):
    """The encoder of the recorded steps: tanh(W mean of the embeddings of the tokens)."""

    def __init__(self, embeddings, weight):
        super().__init__()
        self.embeddings, self.weight = (nn.Parameter(x.double()) for x in (embeddings, weight))

    def forward(self, ids, mask):
        weights = mask.double() / mask.sum(1, keepdim=True)
        mean = (self.embeddings[ids] * weights.unsqueeze(-1)).sum(1)
        return torch.tanh(mean @ self.weight.T)


@files("baselines/esimcse_steps")
def test_momentum_and_queue_of_esimcse_over_three_steps(path):
    file = read(path)
    encoder = Toy(file["emb0"], file["W0"])
    head = nn.Linear(*file["mlp_weight0"].T.shape).double()
    head.load_state_dict({key: file[f"mlp_{key}0"] for key in ("weight", "bias")})
    start = Toy(file["momentum_emb0"], file["momentum_W0"])
    momentum = Network(start, momentum=float(file["momentum"]))
    queue = Queue(int(file["queue_size"]), head.out_features, view=2).double()
    objective = ESimCSE(temperature=float(file["temperature"]))
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=float(file["lr_sgd"]))
    # The release follows the encoder before a step, which is after the one before it.
    momentum.after_update(encoder, Views(*[torch.zeros(1, 2, 1)] * 2))
    for step, (ids, mask) in enumerate(
        zip(file["input_ids"].long(), file["attention_mask"], strict=True)
    ):
        first, second = ((ids[:, view], mask[:, view]) for view in (0, 1))
        third = momentum.encoder(*first)
        assert not third.requires_grad
        encoded = torch.stack([encoder(*first), encoder(*second), third])
        projected = torch.tanh(head(encoded))
        loss = objective(Views(encoded, projected, {}, {"queue": queue}))["info_nce"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        views = Views(encoded.detach(), projected.detach())
        for found, key in (
            (loss.detach(), "loss_f64"),
            (momentum.encoder.weight, "momentum_W_after_forward_f64"),
            (encoder.weight.detach(), "W_after_sgd_f64"),
        ):
            expected = file[f"official_{key}"][step]
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
        queue.after_update(encoder, views)
        momentum.after_update(encoder, views)
        expected = file[f"official_queue_after_step{step + 1}_f64"]
        torch.testing.assert_close(queue.rows, expected, rtol=0, atol=1e-10)


LAYERS = {
    "pooler_dense": "pooler",
    "projection_dense": "projection.0",
    "projection_LayerNorm": "projection.1",
    "predictor_mlp_mlp_0": "predictor.0.0",
    "predictor_mlp_layer_norm_0": "predictor.0.1",
    "predictor_dense": "predictor.1",
}
"""Layers of the released MoCoSE -> ours."""


@files("baselines/mocose_heads")
def test_heads_of_mocose(path):
    file = read(path)
    head = MoCoSE(head_dropout=0.0).build_head(len(file["pooler_dense_bias"]), 0).double()
    weights = {
        f"{ours}.{kind}": file[f"{theirs}_{kind}"]
        for theirs, ours in LAYERS.items()
        for kind in ("weight", "bias")
    }
    head.load_state_dict(weights, strict=False)
    follow(head.copied_pooler, head.pooler, 0.0)
    follow(head.copied_projection, head.projection, 0.0)
    hidden = leaf(file["hidden"], "f64")
    query, key = head(torch.stack([hidden, hidden]))
    for found, name in (
        (head.pooler(hidden), "pooler"), (key, "projection"), (query, "predictor"),
    ):  # fmt: skip
        expected = file[f"official_{name}_out_f64"]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    (query * file["upstream"]).sum().backward()
    vector(hidden.grad, file["official_grad_hidden_f64"], 1e-8)


@files("baselines/mocose_steps")
def test_the_followers_of_mocose(path):
    file = read(path)
    last = int(file["ema_total_step"])
    objective = MoCoSE(momentum=float(file["ema_decay_start"]), momentum_updates=last)
    assert objective.momentum_at(last) == objective.momentum_at(last + 3) == 1.0
    rows = file["ema_params_per_step"].double()
    original, copied = (nn.Linear(*rows.shape[:0:-1], bias=False).double() for _ in range(2))
    with torch.no_grad():
        copied.weight.copy_(rows[0])
        for update, (decay, expected) in enumerate(
            zip(file["ema_decay_per_step"], file["official_ema_after_step_f64"], strict=True), 1
        ):
            if update <= last:  # behind it the authors' falls again
                assert objective.momentum_at(update) == pytest.approx(float(decay), abs=1e-12)
            original.weight.copy_(rows[update])
            follow(copied, original, float(decay))
            torch.testing.assert_close(copied.weight, expected, rtol=0, atol=1e-10)


def test_dropout_of_mocose_s_head_scales_what_it_keeps():
    head = MomentumHead(2000, seeded(0), dropout=0.25, momentum=lambda update: 0.5)
    dropped = head.projection[2](torch.ones(1, 2000))
    assert sorted(dropped.unique().tolist()) == [0.0, pytest.approx(4 / 3)]
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.05)
    assert head.copied_projection[2].generator is head.generator


# VaSCL


def vascl_of(file, precision, **options):
    """The objective with the file's constants, and its head with the file's weights."""
    objective = VaSCL(
        neighbours=int(file["topk"]),
        radius=float(file["eps"]),
        start_radius=float(file["xi"]),
        width=len(file["head_W2"]),
        temperature=float(file["temperature"]),
        **options,
    )
    head = objective.build_head(file["e1"].shape[1], 0)
    for layer, name in ((0, "head_W1"), (2, "head_W2")):
        head.layers[layer].weight.data.copy_(file[name])
    return objective, head.to(DTYPES[precision])


@precisions
@files("baselines/vascl")
def test_terms_and_the_step_of_vascl_s_virtual_views(path, precision):
    file = read(path)
    objective, head = vascl_of(file, precision)
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
    assert not e1.grad.any()
    for name, weight in weights.items():
        check_gradient(file, f"official_virtual_grad_{name}", precision, weight)
    terms["nt_xent"].backward()
    for name, x in {"e1": e1, "e2": e2, **weights}.items():
        check_gradient(file, f"official_grad_{name}", precision, x)


@precisions
@files("baselines/vascl")
def test_virtual_views_train_the_encoder_where_nothing_is_held_constant(path, precision):
    file = read(path)
    objective, head = vascl_of(file, precision, stop_gradient=False)
    e1 = leaf(file["e1"], precision)
    step = head.step(e1.detach(), file["start_uniform"].to(e1))
    views = torch.stack([head.project(x) for x in (e1, e1, e1 + step)])
    objective(Views(torch.stack([e1, e1]), views))["virtual"].backward()
    check_gradient(file, "undetached_virtual_grad_e1", precision, e1)


def test_vascl_moves_every_sentence_by_the_radius_in_a_new_direction():
    encoded = random(2, 7, 32).float()
    head = VaSCL(radius=3.0, start_radius=0.1, temperature=1.0).build_head(32, 0)
    lengths = head.step(encoded[0], random(7, 32, seed=2).float()).norm(dim=1)
    torch.testing.assert_close(lengths, torch.full((7,), 3.0), rtol=1e-3, atol=0)
    first, second = head(encoded), head(encoded)
    assert torch.equal(first[:2], second[:2])
    assert not torch.equal(first[2], second[2])


# PromptBERT and IS-BERT


@precisions
@files("baselines/promptbert")
def test_head_and_loss_of_promptbert(path, precision):
    file = read(path)
    mlp = TanhMLP(len(file["mlp_bias"]), seeded(0))
    mlp.dense.load_state_dict({name: file[f"mlp_{name}"] for name in ("weight", "bias")})
    head, counts = Differences(mlp.to(DTYPES[precision])), file["sentence_token_counts"]
    objective = PromptBERT(temperature=float(file["temperature"]))

    def loss(masked, *templates):
        encoded = torch.stack([*masked.unbind(1), *(template[counts] for template in templates)])
        return objective(Views(encoded, head(encoded)))["info_nce"]

    names = ("mask_vectors", "template1_vectors", "template2_vectors")
    inputs = {name: file[name] for name in names}
    check(file, "official_", precision, inputs, loss, rel=BASELINE)
    check_gradient(file, "official_grad_mlp_weight", precision, mlp.dense.weight)


@precisions
@pytest.mark.parametrize("key", ["official", "official_pads_zeroed", "paper_relu"])
@files("baselines/isbert_conv")
def test_convolutions_of_is_bert(path, key, precision):
    file = read(path)
    dim, kernels = file["h"].shape[2], file["kernel_sizes"].tolist()
    relu = key == "paper_relu"
    layers = Convolutions(dim, int(file["channels"]), kernels, relu=relu, generator=seeded(0))
    convolutions = layers.to(DTYPES[precision])
    named = dict(zip(kernels, convolutions.layers, strict=True))
    for kernel, layer in named.items():
        layer.load_state_dict({n: file[f"conv{kernel}_{n}"] for n in ("weight", "bias")})
    mask, objective = file["mask"], ISBERT(variant="paper" if relu else "released")

    def loss(h):
        # What the encoder gives is zero at the padding; the release lets it leak.
        states = h if key == "official" else h * mask.unsqueeze(-1)
        encoded = states.mean(1).unsqueeze(0)
        tokens = {0: TokenStates(states, mask)}
        own, others = objective(
            Views(encoded, encoded, tokens, {"convolutions": convolutions})
        ).values()
        if precision == "f64":
            scalar(-own, file[f"{key}_e_pos_f64"], 1e-10)
            local = convolutions(states, mask)
            vector(local.sum(1) / mask.sum(1, keepdim=True), file[f"{key}_global_f64"], 1e-10)
        return own + others

    check(file, f"{key}_", precision, {"h": file["h"]}, loss, rel=BASELINE)
    for kernel, layer in named.items():
        for name, parameter in layer.named_parameters():
            check_gradient(file, f"{key}_grad_conv{kernel}_{name}", precision, parameter)
