"""The reference files of objectives; run make_golden.py."""

from __future__ import annotations

from collections.abc import Callable

import torch
from golden_reference import (
    batch_norm,
    correlation,
    cos,
    cross_entropy,
    dimension_contrast,
    draw,
    group_whiten,
    info_nce,
    near,
    off_dropout,
    on_off,
    save,
    with_gradients,
)
from torch import Tensor


def make_info_nce() -> None:
    z1 = draw(40, 10, 7)
    z2, z3 = near(z1, 41), near(z1, 42)
    two = {"z1": z1, "z2": z2}
    loss = with_gradients("", two, lambda a, b: info_nce(a, b, 0.05))
    save("infonce", **two, temperature=0.05, **loss)

    def hard(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        rows = [
            [cos(x, y) / 0.05 for y in b]
            + [cos(x, y) / 0.05 + 0.5 * (i == j) for j, y in enumerate(c)]
            for i, x in enumerate(a)
        ]
        return cross_entropy(rows)

    three = {**two, "z3": z3}
    constants = {"temperature": 0.05, "hard_negative_weight": 0.5}
    save("infonce_hardneg", **three, **constants, **with_gradients("", three, hard))


def make_multi_positive() -> None:
    h = draw(50, 8, 6)
    inputs = {"h": h, "p1": near(h, 51), "p2": near(h, 52)}

    def form(equation: str, weight: float) -> Callable[..., Tensor]:
        sign = -1 if equation == "eq8_printed" else 1

        def loss(h: Tensor, *positives: Tensor) -> Tensor:
            losses = []
            for i, anchor in enumerate(h):
                s = [cos(anchor, p[i]) / 0.05 for p in positives]
                d = [sum((cos(anchor, y) / 0.05).exp() for y in p) for p in positives]
                ratios = [(sign * a).exp() / b for a, b in zip(s, d, strict=True)]
                logs = -weight * sum(r.log() for r in ratios)
                losses.append(logs if equation == "eq7" else -(weight * sum(ratios)).log())
            return torch.stack(losses).mean()

        return loss

    arrays: dict[str, Tensor] = {}
    for weight_key, weight in (("lambda1", 1.0), ("lambda_1_over_m", 0.5)):
        for equation in ("eq7", "eq8_plus", "eq8_printed"):
            name = f"{equation}_{weight_key}_"
            arrays |= with_gradients(name, inputs, form(equation, weight))
    save("whitenedcse_multipos_m2", **inputs, temperature=0.05, num_positives=2, **arrays)


def make_whitening_head() -> None:
    n, dim, tau = 9, 8, 0.05
    base = draw(60, n, dim)
    cls = torch.stack([base, near(base, 61), near(base, 62)], dim=1)
    generator = torch.Generator().manual_seed(63)
    perms = [torch.randperm(dim, generator=generator) for _ in range(3)]
    weight, bias = draw(64, dim, dim), draw(65, 1, dim)[0]
    arrays: dict[str, Tensor] = {}
    for name, released in (("viewwise", False), ("interleaved_as_released", True)):
        for matrix, detach in (("detachedW", True), ("fullW", False)):
            leaves = [x.double().requires_grad_() for x in (cls, weight, bias)]
            x, w, b = leaves
            rows = x.reshape(3 * n, dim) if released else x.transpose(0, 1).reshape(3 * n, dim)
            blocks = [
                group_whiten(block, perm, dim // 2, detach=detach)[0]
                for block, perm in zip(rows.split(n), perms, strict=True)
            ]
            z = torch.tanh(torch.cat(blocks) @ w.T + b)
            z = z.reshape(n, 3, dim) if released else z.reshape(3, n, dim).transpose(0, 1)
            loss = info_nce(z[:, 0], z[:, 1], tau) + info_nce(z[:, 0], z[:, 2], tau)
            loss.backward()
            arrays[f"{name}_loss_f64"], arrays[f"{name}_loss_f32"] = loss, loss.float()
            arrays[f"{name}_grad_cls_{matrix}_f64_as_f32"] = x.grad.float()
            if detach:
                arrays[f"{name}_grad_cls_detachedW_f32"] = x.grad.float()
            arrays[f"{name}_grad_dense_weight_f32"] = w.grad.float()
            arrays[f"{name}_grad_dense_bias_f32"] = b.grad.float()
    named = {f"perm{i + 1}": perm for i, perm in enumerate(perms)}
    constants = {"groups": dim // 2, "temperature": tau}
    save(
        "whitenedcse_head",
        cls=cls,
        dense_weight=weight,
        dense_bias=bias,
        **named,
        **constants,
        **arrays,
    )


def make_scd_loss() -> None:
    alpha, weight, paper_alpha, paper_weight, tau = 0.005225, 0.012, 0.005, 0.013, 0.05
    h, p = draw(70, 10, 6), draw(71, 10, 5)
    inputs = {"hA": h, "hB": near(h, 72), "pA": p, "pB": near(p, 73)}
    parts: dict[str, Tensor] = {}

    def official(h_a: Tensor, h_b: Tensor, p_a: Tensor, p_b: Tensor) -> Tensor:
        on, off = on_off(correlation(p_a, p_b, "standardised", 1e-5))
        contrast = torch.stack([cos(x, y) for x, y in zip(h_a, h_b, strict=True)]).mean() / tau
        named = {"on_diag": on, "off_diag": off, "self_contrast": contrast}
        parts.update({f"official_{k}_f64": v for k, v in named.items()})
        return contrast + alpha * (on + weight * off)

    arrays = with_gradients("official_", inputs, official) | parts
    arrays["official_bn_pA_f64"] = batch_norm(p.double())
    for form in ("printed_raw", "printed_centred", "barlow_raw", "barlow_centred"):
        for sign in ("plus", "minus_as_printed"):
            h_a, h_b, p_a, p_b = (x.double().requires_grad_() for x in inputs.values())
            contrast = torch.stack([cos(x, y) for x, y in zip(h_a, h_b, strict=True)]).mean()
            c = correlation(p_a, p_b, form)
            on, off = on_off(c)
            loss_c = (on if sign == "plus" else -on) + paper_weight * off
            loss = contrast + paper_alpha * loss_c
            loss.backward()
            arrays |= {
                "paper_LS_f64": contrast,
                "paper_grad_LS_hA_f64": h_a.grad,
                "paper_grad_LS_hB_f64": h_b.grad,
                f"paper_{form}_C_f64": c,
                f"paper_{form}_on_f64": on,
                f"paper_{form}_off_f64": off,
                f"paper_{form}_{sign}_LC_f64": loss_c,
                f"paper_{form}_{sign}_L_f64": loss,
                f"paper_{form}_{sign}_grad_pA_f64": p_a.grad,
                f"paper_{form}_{sign}_grad_pB_f64": p_b.grad,
            }
    constants = {"task_alpha": 1.0, "task_beta": alpha, "task_lambda": weight, "temperature": tau}
    constants |= {"paper_alpha": paper_alpha, "paper_lambda": paper_weight, "bn_eps": 1e-5}
    save("scd_loss", **inputs, **constants, **arrays)


def make_scd_projector() -> None:
    h = draw(80, 12, 6)
    inputs = {"hA": h, "hB": near(h, 81)}
    bias, upstream = draw(82, 1, 7)[0], draw(83, 12, 5)
    weights = {0: draw(84, 7, 6), 3: draw(85, 7, 7), 6: draw(86, 5, 7)}
    running = {i: [torch.zeros(7).double(), torch.ones(7).double()] for i in (1, 4)}

    def project(x: Tensor) -> Tensor:
        for i in (0, 3):
            x = x @ weights[i].double().T + (bias if i == 0 else 0)
            for statistic, batch in zip(running[i + 1], (x.mean(0), x.var(0)), strict=True):
                statistic.copy_(0.9 * statistic + 0.1 * batch.detach())
            x = batch_norm(x).relu()
        return x @ weights[6].double().T

    leaf = h.double().requires_grad_()
    p_a, p_b = project(leaf), project(inputs["hB"].double())
    (gradient,) = torch.autograd.grad((p_a * upstream).sum(), leaf)
    named = {f"layer{i}_linear_weight": weight for i, weight in weights.items()}
    for i, (mean, var) in running.items():
        named[f"layer{i}_bn_running_mean_after_both"] = mean
        named[f"layer{i}_bn_running_var_after_both"] = var
    outputs = {"pA_f64": p_a, "pB_f64": p_b, "upstream": upstream, "grad_hA_f64": gradient}
    save("scd_projector", **inputs, **named, **outputs, layer0_linear_bias=bias)


def make_simcsepp() -> None:
    z1 = draw(90, 9, 6)
    two = {"z1": z1, "z2": near(z1, 91)}
    three = {**two, "z0": near(z1, 92)}
    tau, m, tau_d, weight = 0.05, 0.9, 5.0, 0.1

    def off(m: float, paper: bool) -> Callable[..., Tensor]:
        return lambda a, b, c: off_dropout(a, b, c, tau, m, paper)

    def dcl(tau_d: float, form: str) -> Callable[..., Tensor]:
        return lambda a, b: dimension_contrast(a, b, tau_d, form)

    arrays = with_gradients("official_", three, off(m, False))
    arrays |= with_gradients("official_m1_", three, off(1.0, False))
    arrays |= with_gradients("paper_", three, off(m, True))
    save("simcsepp_offdropout", **three, m=m, temperature=tau, **arrays)

    ten = dcl(10.0, "official")
    losses: dict[str, tuple[dict[str, Tensor], Callable[..., Tensor]]] = {
        "official_dcl_tau5_": (two, dcl(5.0, "official")),
        "official_dcl_tau10_": (two, ten),
        "official_infonce_plus_0p1_dcl_tau10_": (
            two,
            lambda a, b: info_nce(a, b, tau) + weight * ten(a, b),
        ),
        "paper_eq5_unbiased_": (two, dcl(tau_d, "paper_unbiased")),
        "paper_eq5_biased_": (two, dcl(tau_d, "paper_biased")),
        "combo_official_offdropout_m09_plus_0p1_dcl_tau5_": (
            three,
            lambda a, b, c: off(m, False)(a, b, c) + weight * dcl(tau_d, "official")(a, b),
        ),
        "combo_paper_offdropout_m09_plus_0p1_dcl_eq5_": (
            three,
            lambda a, b, c: off(m, True)(a, b, c) + weight * dcl(tau_d, "paper_unbiased")(a, b),
        ),
    }
    arrays = {}
    for key, (inputs, loss) in losses.items():
        arrays |= with_gradients(key, inputs, loss)
    constants = {"tau_dcl": tau_d, "lambda_dcl": weight, "m": m, "temperature": tau}
    save("simcsepp_dcl", **three, **constants, **arrays)


def make_barlow(rows: int) -> None:
    a = draw(100, 7, 5)
    inputs = {"zA": a, "zB": near(a, 101)}
    noise = {"gauss_A": draw(102, rows, 5), "gauss_B": draw(103, rows, 5)} if rows else {}

    def loss(second: str, weight: float, eps: float) -> Callable[..., Tensor]:
        def value(a: Tensor, b: Tensor) -> Tensor:
            if rows:
                a, b = torch.cat([a, noise["gauss_A"]]), torch.cat([b, noise[second]])
            on, off = on_off(correlation(a, b, "standardised", eps))
            return on + weight * off

        return value

    arrays = with_gradients("same_noise_", inputs, loss("gauss_A", 0.005, 0.0))
    key = "official_lambda012_same_noise_"
    arrays |= with_gradients(key, inputs, loss("gauss_A", 0.012, 1e-5))
    if rows:
        arrays |= with_gradients("independent_noise_", inputs, loss("gauss_B", 0.005, 0.0))
    save(f"barlow_M{rows}", **inputs, **noise, M=rows, lambda_bt=0.005, eps=0.0, **arrays)
