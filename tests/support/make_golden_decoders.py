"""The small reference files of TSDAE and DiffCSE: python tests/support/make_golden_decoders.py

The formulas once more, in float64: attention as loops over sentences and heads, gradients by
automatic differentiation. Nothing of isospace is imported.
"""

from __future__ import annotations

import torch
from golden_reference import FOLDER, cos, cross_entropy, draw, save
from torch import Tensor
from torch.nn.functional import gelu

VOCABULARY, HIDDEN, HEADS, INNER, LAYERS, POSITIONS, EPS = 20, 8, 2, 12, 2, 9, 1e-12
Weights = dict[str, Tensor]


def weights(seed: int) -> Weights:
    """Drawn, as multiples of 2^-8, so that half precision holds them."""
    shapes = {"word": (VOCABULARY, HIDDEN), "position": (POSITIONS, HIDDEN), "type": (2, HIDDEN)}
    dense = {"head_dense": (HIDDEN, HIDDEN)}
    norms = ["emb_ln", "head_ln"]
    for i in range(LAYERS):
        dense |= {f"l{i}_{a}_{b}": (HIDDEN, HIDDEN) for a in ("self", "cross") for b in "qkvo"}
        dense |= {f"l{i}_ffn_in": (INNER, HIDDEN), f"l{i}_ffn_out": (HIDDEN, INNER)}
        norms += [f"l{i}_{part}_ln" for part in ("self", "cross", "ffn")]
    for name, shape in dense.items():
        shapes |= {f"{name}_weight": shape, f"{name}_bias": shape[:1]}
    shapes |= {f"{name}_{part}": (HIDDEN,) for name in norms for part in ("weight", "bias")}
    shapes["head_bias"] = (VOCABULARY,)
    generator = torch.Generator().manual_seed(seed)
    drawn = {k: 0.3 * torch.randn(*v, generator=generator) for k, v in shapes.items()}
    for name in norms:
        drawn[f"{name}_weight"] += 1
    return {k: (v * 256).round().div(256).half() for k, v in drawn.items()}


def affine(w: Weights, name: str, x: Tensor) -> Tensor:
    return x @ w[f"{name}_weight"].T + w[f"{name}_bias"]


def norm(w: Weights, name: str, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + EPS).sqrt()
    return centred / scale * w[f"{name}_weight"] + w[f"{name}_bias"]


def attend(w: Weights, name: str, x: Tensor, to: Tensor, causal: bool) -> Tensor:
    """Of one sentence: `x` (n, hidden) to `to` (m, hidden)."""
    q, k, v = (affine(w, f"{name}_{part}", y) for part, y in (("q", x), ("k", to), ("v", to)))
    out = []
    for head in range(HEADS):
        part = slice(head * HIDDEN // HEADS, (head + 1) * HIDDEN // HEADS)
        scores = q[:, part] @ k[:, part].T / (HIDDEN // HEADS) ** 0.5
        rows = []
        for t in range(len(x)):
            seen = scores[t, : t + 1] if causal else scores[t]
            rows.append(seen.softmax(0) @ v[: len(seen), part])
        out.append(torch.stack(rows))
    return affine(w, f"{name}_o", torch.cat(out, dim=1))


def states(w: Weights, ids: Tensor, s: Tensor | None) -> Tensor:
    """Of one sentence without padding; with `s` the decoder's."""
    x = norm(w, "emb_ln", w["word"][ids] + w["position"][: len(ids)] + w["type"][0])
    for i in range(LAYERS):
        causal = s is not None
        x = norm(w, f"l{i}_self_ln", x + attend(w, f"l{i}_self", x, x, causal))
        if s is not None:
            x = norm(w, f"l{i}_cross_ln", x + attend(w, f"l{i}_cross", x, s[None], False))
        inner = gelu(affine(w, f"l{i}_ffn_in", x))
        x = norm(w, f"l{i}_ffn_ln", x + affine(w, f"l{i}_ffn_out", inner))
    return x


def nll(w: Weights, ids: Tensor, s: Tensor) -> Tensor:
    head = norm(w, "head_ln", gelu(affine(w, "head_dense", states(w, ids[:-1], s))))
    logits = head @ w["word"].T + w["head_bias"]
    return torch.stack(
        [-row.log_softmax(0)[label] for row, label in zip(logits, ids[1:], strict=True)]
    )


def sentences(seed: int, lengths: list[int]) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, n in zip(ids, lengths, strict=True):
        row[:n] = torch.randint(4, VOCABULARY, (n,), generator=generator)
        row[0], row[n - 1] = 1, 2
    return ids


SIZES = {
    "vocab": VOCABULARY,
    "hidden": HIDDEN,
    "heads": HEADS,
    "intermediate": INNER,
    "layers": LAYERS,
    "layer_norm_eps": EPS,
    "pad_id": 0,
}


def with_official(loss: Tensor, leaves: Weights, known: list[str]) -> Weights:
    loss.backward()
    arrays = {"official_loss_f64": loss.detach(), "official_loss_f32": loss.detach().float()}
    for name in known:
        gradient = leaves[name].grad
        assert gradient is not None
        arrays |= {
            f"official_grad_{name}_f64": gradient,
            f"official_grad_{name}_f32": gradient.float(),
        }
    return arrays


def make_tsdae() -> None:
    half = weights(50)
    targets, sources = sentences(51, [8, 5, 6]), sentences(52, [4, 3, 4])
    known = ["word", "l0_cross_v_weight", "l1_self_q_weight", "head_bias"]

    leaves = {k: v.double().requires_grad_() for k, v in half.items()}
    s = draw(53, 3, HIDDEN)
    leaves["s"] = s.double().requires_grad_()
    losses = [nll(leaves, row[row > 0], leaves["s"][i]) for i, row in enumerate(targets)]
    arrays = with_official(torch.cat(losses).mean(), leaves, [*known, "s"])
    predicted = targets[:, 1:] > 0
    per_token = torch.zeros(predicted.shape, dtype=torch.float64)
    per_token[predicted] = torch.cat(losses).detach()
    arrays |= {"official_token_nll_f64": per_token, "predicted": predicted, "s": s}
    save("baselines/tsdae_decoder", **SIZES, **half, target_ids=targets, **arrays)

    leaves = {k: v.double().requires_grad_() for k, v in half.items()}
    made = [states(leaves, row[row > 0], None)[0] for row in sources]
    losses = [nll(leaves, row[row > 0], x) for row, x in zip(targets, made, strict=True)]
    arrays = with_official(torch.cat(losses).mean(), leaves, known)
    arrays |= {"source_ids": sources, "source_mask": (sources > 0).long()}
    arrays["sentence_f64"] = torch.stack(made).detach()
    save("baselines/tsdae_tied", **SIZES, **half, target_ids=targets, **arrays)

    draws = torch.rand(3, 7, generator=torch.Generator().manual_seed(54), dtype=torch.float64)
    lengths, fallback = torch.tensor([7, 4, 3]), torch.tensor([6, 3, 1])
    draws[2] /= 2  # all deleted, but for the one that stays
    kept = draws > 0.6
    kept[2, 1] = True
    noise = {"draws": draws, "lengths": lengths, "fallback_index": fallback, "official_kept": kept}
    save("baselines/tsdae_noise", deletion_ratio=0.6, **noise)


def batch_norm(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean = x.mean(0)
    variance = (x - mean).square().mean(0)
    return (x - mean) / (variance + 1e-5).sqrt(), mean, variance


def make_diffcse() -> None:
    n, length, dim, tau, weight = 4, 6, 5, 0.05, 0.005
    ids = sentences(60, [6, 4, 5, 6])
    mask = (ids > 0).long()
    generator = torch.Generator().manual_seed(61)
    both, twice = ids.repeat_interleave(2, 0), mask.repeat_interleave(2, 0)
    masked = (torch.rand(both.shape, generator=generator) < 0.4) & (both > 2)
    mlm = both.masked_fill(masked, 3)
    scores = (2 * torch.randn(2 * n, length, VOCABULARY, generator=generator)).half()
    scores.scatter_add_(2, both[..., None], torch.full((2 * n, length, 1), 3.0).half())
    gumbel = -torch.log(-torch.log(torch.rand(scores.shape, generator=generator))).half()

    def shown(guesses: Tensor, everywhere: bool) -> tuple[Tensor, Tensor]:
        found = both.clone()
        for r in range(2 * n):
            for t in range(1, length):
                if everywhere or masked[r, t]:
                    found[r, t] = guesses[r, t]
        return found * twice, ((found != both) * twice).long()

    seen, labels = shown(scores.argmax(-1), everywhere=True)
    sampled = shown((scores.double() + gumbel.double()).argmax(-1), everywhere=False)
    likeliest = shown(scores.argmax(-1), everywhere=False)
    inputs = {
        "cls": draw(62, 2 * n, dim).view(n, 2, dim),
        "disc_table": draw(63, VOCABULARY, dim),
        "disc_position_scale": draw(64, 1, length)[0],
        "head_weight": draw(65, 2, dim),
        "head_bias": draw(66, 1, 2)[0],
        "proj_W1": draw(67, 2 * dim, dim),
        "proj_bn1_weight": draw(68, 1, 2 * dim)[0],
        "proj_bn1_bias": draw(69, 1, 2 * dim)[0],
        "proj_W2": draw(70, dim, 2 * dim),
    }
    x = {k: v.double().requires_grad_() for k, v in inputs.items()}
    rows = x["cls"].view(2 * n, dim)
    first, mean1, var1 = batch_norm(rows @ x["proj_W1"].T)
    inner = (first * x["proj_bn1_weight"] + x["proj_bn1_bias"]).relu()
    projected, mean2, var2 = batch_norm(inner @ x["proj_W2"].T)
    h = projected.view(n, 2, dim)
    info_nce = cross_entropy([[cos(h[i, 0], h[j, 1]) / tau for j in range(n)] for i in range(n)])
    states = [
        [
            x["disc_table"][seen[r, t]] + x["disc_position_scale"][t] * projected[r]
            for t in range(length)
        ]
        for r in range(2 * n)
    ]
    head = torch.stack([torch.stack(row) for row in states]) @ x["head_weight"].T + x["head_bias"]
    head.retain_grad()
    losses = torch.stack(
        [-head[r, t].log_softmax(0)[labels[r, t]] for r in range(2 * n) for t in range(length)]
    )
    losses.mean().backward(retain_graph=True)
    assert head.grad is not None
    of_detection = head.grad.clone()
    for leaf in x.values():
        leaf.grad = None
    loss = info_nce + weight * losses.mean()
    loss.backward()
    real = twice.bool().flatten()
    words = real.clone().view(2 * n, length)
    words[:, 0] = False
    count = 2 * n
    arrays = {
        "rtd_loss_all_positions_f64": losses.mean().detach(),
        "rtd_loss_real_tokens_only_f64": losses[real].mean().detach(),
        "rtd_loss_real_tokens_without_cls_f64": losses[words.flatten()].mean().detach(),
        "rtd_grad_logits_all_positions_f64": of_detection,
        "official_rtd_logits_f64": head.detach(),
        "official_projected_f64": projected.detach(),
        "official_discriminator_ids": seen,
        "rtd_labels": labels,
        "paper_gumbel": gumbel,
        "paper_sampled_ids": sampled[0],
        "paper_sampled_labels": sampled[1],
        "argmax_at_masked_only_ids": likeliest[0],
        "argmax_at_masked_only_labels": likeliest[1],
        "official_grad_disc_table_f64": x["disc_table"].grad,
        "official_grad_head_weight_f64": x["head_weight"].grad,
        "official_grad_proj_W1_f64_as_f32": x["proj_W1"].grad.float(),
        "official_grad_proj_W2_f64_as_f32": x["proj_W2"].grad.float(),
    }
    running = {}
    for name, mean, variance in (("bn1", mean1, var1), ("bn2", mean2, var2)):
        running[name] = 0.1 * mean.detach(), 0.9 + 0.1 * variance.detach() * count / (count - 1)
        arrays[f"official_{name}_running_mean_f64"] = running[name][0]
        arrays[f"official_{name}_running_var_f64"] = running[name][1]

    def by_running(y: Tensor, name: str) -> Tensor:
        mean, variance = running[name]
        return (y - mean) / (variance + 1e-5).sqrt()

    inner = by_running(rows @ x["proj_W1"].T, "bn1") * x["proj_bn1_weight"] + x["proj_bn1_bias"]
    evaluated = by_running(inner.relu() @ x["proj_W2"].T, "bn2")
    arrays["official_projected_eval_mode_f64"] = evaluated.detach()
    for key, value in (("loss", loss), ("infonce", info_nce), ("grad_cls", x["cls"].grad)):
        arrays |= {
            f"official_{key}_f64": value.detach(),
            f"official_{key}_f32": value.detach().float(),
        }
    tokens = {"input_ids": ids, "attention_mask": mask, "mlm_input_ids": mlm}
    constants = {"temperature": tau, "lambda_rtd": weight, "bn_eps": 1e-5, "bn_momentum": 0.1}
    save("baselines/diffcse", **inputs, **tokens, **constants, generator_logits=scores, **arrays)


if __name__ == "__main__":
    (FOLDER / "baselines").mkdir(exist_ok=True)
    make_tsdae()
    make_diffcse()
