"""The reference files of MoCoSE; run make_golden.py."""

from __future__ import annotations

import math

import torch
from golden_reference import cos, cross_entropy, draw, near, save, with_gradients
from torch import Tensor
from torch.nn.functional import normalize

TAU, DIM, EPS = 0.05, 6, 1e-12
HEADS = (
    "pooler_dense", "projection_dense", "projection_LayerNorm", "predictor_mlp_mlp_0",
    "predictor_mlp_layer_norm_0", "predictor_dense",
)  # fmt: skip

Weights = dict[str, Tensor]


def weights(seed: int, names: tuple[str, ...]) -> Weights:
    made = {}
    for i, name in enumerate(names):
        norm = "orm" in name
        weight = draw(seed + 2 * i, DIM) / 4 + 1 if norm else draw(seed + 2 * i, DIM, DIM) / 3
        made |= {f"{name}_weight": weight, f"{name}_bias": draw(seed + 2 * i + 1, DIM) / 5}
    return made


def affine(w: Weights, name: str, x: Tensor) -> Tensor:
    return x @ w[f"{name}_weight"].T + w[f"{name}_bias"]


def norm(w: Weights, name: str, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    deviation = ((centred**2).mean(-1, keepdim=True) + EPS).sqrt()
    return centred / deviation * w[f"{name}_weight"] + w[f"{name}_bias"]


def project(w: Weights, x: Tensor) -> Tensor:
    pooled = affine(w, "pooler_dense", x)
    return norm(w, "projection_LayerNorm", affine(w, "projection_dense", pooled))


def predict(w: Weights, x: Tensor) -> Tensor:
    hidden = norm(w, "predictor_mlp_layer_norm_0", affine(w, "predictor_mlp_mlp_0", x))
    return torch.tanh(affine(w, "predictor_dense", hidden))


def rows(query: Tensor, keys: Tensor, negatives: Tensor) -> list[list[Tensor]]:
    return [[cos(q, x) / TAU for x in (*keys, *negatives.T)] for q in query]


def decay(start: float, total: int, update: int) -> float:
    return 1 - (1 - start) * (math.cos(math.pi * update / total) + 1) / 2


def make_loss() -> None:
    query = draw(700, 7, DIM)
    two = {"query": query, "keys": near(query, 701)}
    queue = 2 * draw(702, DIM, 9)
    arrays = with_gradients(
        "official_", two, lambda q, k: cross_entropy(rows(q, k, queue.double()))
    )
    q, k = (x.double() for x in two.values())
    logits = [torch.stack(row) for row in rows(q, k, queue.double())]
    alone = [torch.cat([row[i : i + 1], row[len(k) :]]) for i, row in enumerate(logits)]
    losses = torch.stack([row.exp().sum().log() - row[0] for row in alone])
    arrays |= {"ref_logits_f64": torch.stack(logits), "queue_only_loss_f64": losses.mean()}
    save("baselines/mocose_loss", **two, queue=queue, temperature=TAU, **arrays)


def make_heads() -> None:
    inputs = {"hidden": draw(710, 5, DIM), "upstream": draw(711, 5, DIM)}
    given = weights(720, HEADS)
    w = {name: x.double() for name, x in given.items()}
    hidden = inputs["hidden"].double().requires_grad_()
    query = predict(w, project(w, hidden))
    (query * inputs["upstream"]).sum().backward()
    save(
        "baselines/mocose_heads", **inputs, **given, layer_norm_eps=EPS,
        official_pooler_out_f64=affine(w, "pooler_dense", hidden),
        official_projection_out_f64=project(w, hidden), official_predictor_out_f64=query,
        official_grad_hidden_f64=hidden.grad,
    )  # fmt: skip


TABLES = {"word": 9, "position": 5, "token_type": 2}
CONSTANTS = {
    "K": 10, "K_start": 3, "ema_decay": 0.75, "total_step": 15000, "lr_sgd": 0.05, "fgsm": 0.01,
    "temperature": TAU, "layer_norm_eps": EPS,
}  # fmt: skip
FOLLOWING = ("encoder_lin", "pooler_dense", "projection_dense", "projection_LayerNorm")


def encode(w: Weights, x: Tensor, mask: Tensor) -> Tensor:
    mean = (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    return torch.tanh(affine(w, "encoder_lin", x[:, 0] + mean))


def make_steps() -> None:
    lr, fgsm, size, start = (CONSTANTS[name] for name in ("lr_sgd", "fgsm", "K", "K_start"))
    tables = {
        f"embeddings_{name}_embeddings_weight": draw(730 + i, count, DIM)
        for i, (name, count) in enumerate(TABLES.items())
    }
    given = tables | weights(740, ("embeddings_LayerNorm", "encoder_lin", *HEADS))
    w = {name: x.double().requires_grad_() for name, x in given.items()}
    targets = {n: x.detach().clone() for n, x in w.items() if n.startswith(FOLLOWING)}
    queue0 = normalize(draw(770, DIM, size), dim=0)
    random = torch.Generator().manual_seed(771)
    ids = torch.randint(TABLES["word"], (4, 4, 4), generator=random)
    lengths = torch.randint(2, 5, (4, 4, 1), generator=random)
    mask = (torch.arange(4) < lengths).long()

    queue, counter, signs = queue0.double(), int(start), torch.zeros(4, 4, DIM)
    recorded: dict[str, list[Tensor]] = {}

    def record(**values: object) -> None:
        for name, value in values.items():
            now = torch.as_tensor(value, dtype=torch.float64).detach().clone()
            recorded.setdefault(name, []).append(now)

    queues = {}
    for step in range(4):
        m = decay(float(CONSTANTS["ema_decay"]), int(CONSTANTS["total_step"]), step + 1)
        targets = {n: (m * x + (1 - m) * w[n]).detach() for n, x in targets.items()}
        for name in ("projection_dense_weight", "projection_dense_bias",
                     "projection_LayerNorm_weight", "projection_LayerNorm_bias"):  # fmt: skip
            targets[name].requires_grad_()
        record(official_target_encoder_weight_f64=targets["encoder_lin_weight"],
               official_target_projection_weight_f64=targets["projection_dense_weight"],
               decay_per_step=m)  # fmt: skip
        words = [w["embeddings_word_embeddings_weight"][ids[step]] + fgsm * signs for _ in range(2)]
        words[0].retain_grad()
        places = w["embeddings_position_embeddings_weight"][:4]
        kind = w["embeddings_token_type_embeddings_weight"][0]
        x, y = (norm(w, "embeddings_LayerNorm", part + places + kind) for part in words)
        online = predict(w, project(w, encode(w, x, mask[step])))
        keys = project(targets, encode(targets, y, mask[step]))
        given_out = counter + int(start) if counter + int(start) < size else queue.shape[1]
        loss = cross_entropy(rows(online, keys, queue[:, :given_out]))
        leaves = [t for t in (*w.values(), *targets.values()) if t.requires_grad]
        loss.backward()
        gradient = words[0].grad
        assert gradient is not None
        record(official_online_f64_as_f32=online, official_keys_f64_as_f32=keys,
               official_loss_f64=loss, official_embedding_gradient_f64_as_f32=gradient,
               negatives_used_per_step=given_out)  # fmt: skip
        with torch.no_grad():
            for leaf in leaves:
                assert leaf.grad is not None
                leaf -= lr * leaf.grad
                leaf.grad = None
        record(official_online_encoder_weight_after_sgd_f64=w["encoder_lin_weight"],
               official_target_projection_weight_after_sgd_f64=targets["projection_dense_weight"],
               )  # fmt: skip
        signs, counter = gradient.sign(), counter + len(keys)
        queue = torch.cat([keys.detach().T, queue], dim=1)
        queue = queue[:, :size] if counter > size else queue
        queues[f"official_queue_after_step{step + 1}_f64_as_f32"] = queue.float()
        record(queue_columns_after_step=queue.shape[1])

    arrays = {name: torch.stack(values) for name, values in recorded.items()}
    arrays |= {n: x.float() for n, x in arrays.items() if n.endswith("_f64_as_f32")}
    prefix = {n: "init_" if n.startswith("predictor") else "init_online_" for n in given}
    init = {f"{prefix[n]}{n}": x for n, x in given.items()}
    save(
        "baselines/mocose_steps", input_ids=ids, attention_mask=mask, queue0=queue0, **CONSTANTS,
        **init, **arrays, **queues, **following(),
    )  # fmt: skip


def following() -> Weights:
    """The moving average alone, beyond the updates in which it slows down."""
    params, states = draw(780, 8, 2, 3).double(), []
    decays = [decay(0.85, 5, update) for update in range(1, 8)]
    copied = params[0]
    for online, m in zip(params[1:], decays, strict=True):
        copied = m * copied + (1 - m) * online
        states.append(copied)
    return {
        "ema_params_per_step": params, "official_ema_after_step_f64": torch.stack(states),
        "ema_decay_start": torch.tensor(0.85, dtype=torch.float64),
        "ema_total_step": torch.tensor(5), "ema_decay_per_step": torch.tensor(decays, dtype=torch.float64),
    }  # fmt: skip


def make_mocose() -> None:
    make_loss()
    make_heads()
    make_steps()
