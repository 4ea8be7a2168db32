"""Make the small reference files of tests/golden: python tests/support/make_golden.py

Inputs are drawn here and in the make_golden_*.py that it calls; the formulas are those of
golden_reference.py, in float64.
"""

from __future__ import annotations

import torch
from golden_reference import FOLDER, cos, draw, group_whiten, save
from make_golden_baselines import make_baselines
from make_golden_draws import make_draws
from make_golden_losses import (
    make_barlow,
    make_info_nce,
    make_multi_positive,
    make_scd_loss,
    make_scd_projector,
    make_simcsepp,
    make_whitening_head,
)
from make_golden_mocose import make_mocose
from make_golden_posthoc import make_flow, make_flow_initialisation, make_glove
from torch import Tensor


def make_group_whitening(name: str, seed: int, size: int, method: str, shuffle: bool) -> None:
    n, dim = 14, 8
    generator = torch.Generator().manual_seed(seed)
    x, upstream = draw(seed, 3 * n, dim), draw(seed + 1, 3 * n, dim)
    perms = [
        torch.randperm(dim, generator=generator) if shuffle else torch.arange(dim) for _ in range(3)
    ]
    leaf = x.double().requires_grad_()
    result: dict[str, Tensor] = {}
    for key, detach in (
        ("grad_full_f64", False),
        ("grad_detached_official_f32", method == "zca"),
    ):
        blocks = [
            group_whiten(block, perm, dim // size, detach=detach, method=method)
            for block, perm in zip(leaf.split(n), perms, strict=True)
        ]
        out = torch.cat([block[0] for block in blocks])
        (result[key],) = torch.autograd.grad((out * upstream).sum(), leaf)
    save(
        name,
        groups=dim // size,
        x=x,
        upstream=upstream,
        **{f"perm{i + 1}": perm for i, perm in enumerate(perms)},
        out_f64=out,
        W_view1_f64=blocks[0][1],
        cov_view1_f64=blocks[0][2],
        grad_full_f64=result["grad_full_f64"],
        grad_detached_official_f32=result["grad_detached_official_f32"].float(),
    )


def make_full_whitening() -> None:
    x, upstream = draw(20, 24, 6), draw(21, 24, 6)
    leaf, one_group = x.double().requires_grad_(), torch.arange(6)
    arrays: dict[str, Tensor] = {"x": x, "upstream": upstream}
    for ddof in (0, 1):
        for method in ("zca", "pca"):
            out, w, c = group_whiten(leaf, one_group, 1, detach=False, method=method, ddof=ddof)
            arrays |= {f"out_{method}_ddof{ddof}": out, f"W_{method}_ddof{ddof}": w[0]}
            arrays[f"cov_ddof{ddof}"] = c[0]
            if method == "pca" and ddof == 0:
                arrays["gram_pca_ddof0"] = out @ out.T
        for key, detach in (("full", False), ("detached", True)):
            out = group_whiten(leaf, one_group, 1, detach=detach, ddof=ddof)[0]
            (gradient,) = torch.autograd.grad((out * upstream).sum(), leaf)
            arrays[f"grad_zca_{key}_ddof{ddof}"] = gradient
    save("whiten_full", **arrays)


def make_bert_whitening() -> None:
    x, new = draw(30, 40, 8), draw(31, 5, 8)
    arrays: dict[str, Tensor] = {"x": x, "x_new": new, "bias_minus_mean": -x.double().mean(0)}
    for ddof in (0, 1):
        _, w, _ = group_whiten(x.double(), torch.arange(8), 1, detach=True, method="pca", ddof=ddof)
        for name, k in (("kfull", 8), ("khalf", 4)):
            kernel = w[0][:, :k]
            out = (new.double() - x.double().mean(0)) @ kernel
            arrays[f"kernel_ddof{ddof}_{name}"] = kernel
            arrays[f"whitened_new_ddof{ddof}_{name}"] = out
            gram = torch.stack([torch.stack([cos(a, b) for b in out]) for a in out])
            arrays[f"cosine_new_gram_ddof{ddof}_{name}"] = gram
    save("bert_whitening", **arrays)


if __name__ == "__main__":
    (FOLDER / "baselines").mkdir(parents=True, exist_ok=True)
    make_group_whitening("sgw_G_half", 1, 2, "zca", True)
    make_group_whitening("sgw_G_quarter", 3, 4, "zca", True)
    make_group_whitening("sgw_G_1", 5, 8, "zca", False)
    make_group_whitening("sgw_cholesky", 7, 4, "cholesky", True)
    make_full_whitening()
    make_bert_whitening()
    make_info_nce()
    make_multi_positive()
    make_whitening_head()
    make_scd_loss()
    make_scd_projector()
    make_simcsepp()
    make_barlow(0)
    make_barlow(9)
    make_baselines()
    make_draws()
    make_mocose()
    make_flow()
    make_flow_initialisation()
    make_glove()
