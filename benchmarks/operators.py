"""The operators alone: whitening against an eigendecomposition, terms against their formulas."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isospace.losses import dimension_contrast
from isospace.objectives import BarlowTwins, WhitenedCSE
from isospace.operators.whitening import whiten
from isospace.views import Views

ROUNDS = 7
SHAPES = ((64, 384), (64, 768), (64, 1024), (256, 768), (1024, 768), (4096, 768))
GROUP_SIZES = (2, 3, 4, 6, 12, 48)


def tables(_: argparse.Namespace) -> list[dict[str, Any]]:
    """Every table; all times are of forward and backward together."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return [_whitening(device), _terms(device), _growth(device)]


def _whitening(device: str) -> dict[str, Any]:
    rows = []
    for batch, dim in SHAPES:
        for size in (*GROUP_SIZES, dim):
            if dim % size:
                continue
            x = torch.randn(batch, dim, device=device)
            permutation = torch.randperm(dim, device=device)
            groups = dim // size

            def ours(x: Tensor, p: Tensor = permutation, g: int = groups) -> Tensor:
                return whiten(x, groups=g, permutation=p, eps=1e-5, stop_gradient=True)

            def by_eigh(x: Tensor, p: Tensor = permutation, g: int = groups) -> Tensor:
                return _eigh_whitening(x, p, g)

            seconds = _interleaved([_both(ours, x), _both(by_eigh, x)], device)
            ratios = [b / a for a, b in zip(*seconds, strict=True)]
            rows.append(
                [str(batch), str(dim), str(size) if size < dim else f"{dim} (all)"]
                + [f"{1e3 * median(s):.2f}" for s in seconds]
                + [f"{median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"]
            )
    columns = ["batch", "dim", "group", "isospace, ms", "batched eigh, ms", "times faster"]
    title = "Shuffled group whitening, forward and backward, constant matrix (the paper's)"
    return {"title": title, "columns": columns, "rows": rows}


def _eigh_whitening(x: Tensor, permutation: Tensor, groups: int) -> Tensor:
    """The released code's steps, all groups in one batched `eigh` instead of its Python loop."""
    shuffled = x[:, permutation].view(len(x), groups, -1).transpose(0, 1)
    centred = shuffled - shuffled.mean(1, keepdim=True)
    with torch.no_grad():
        covariance = centred.mT @ centred / len(x)
        covariance += 1e-5 * torch.eye(covariance.shape[-1], device=x.device)
        values, vectors = torch.linalg.eigh(covariance)
        matrix = vectors @ torch.diag_embed(values.rsqrt()) @ vectors.mT
    out = (centred @ matrix).transpose(0, 1).reshape(len(x), -1)
    return out[:, permutation.argsort()]


def _terms(device: str) -> dict[str, Any]:
    rows = []
    decorrelate = BarlowTwins(projector=(8,))
    for batch, dim in ((64, 384), (64, 768), (64, 1024), (512, 768)):
        x, y = torch.randn(2, batch, dim, device=device)

        def contrast(x: Tensor, y: Tensor = y) -> Tensor:
            return dimension_contrast(x, y, temperature=5.0, variant="released")

        def plain_contrast(x: Tensor, y: Tensor = y) -> Tensor:
            a, b = ((v - v.mean(0)) / (v.var(0, unbiased=False) + 1e-5).sqrt() for v in (x, y))
            logits = a.T @ b / len(a) / 5.0
            return torch.nn.functional.cross_entropy(logits, torch.arange(len(logits)).to(x.device))

        def twins(x: Tensor, y: Tensor = y) -> Tensor:
            views = torch.stack([x, y])
            return torch.stack(list(decorrelate.terms(Views(views, views)).values())).sum()

        def plain_twins(x: Tensor, y: Tensor = y) -> Tensor:
            a, b = ((v - v.mean(0)) / (v.var(0, unbiased=False) + 1e-5).sqrt() for v in (x, y))
            c = a.T @ b / len(a)
            off = c.flatten()[:-1].view(len(c) - 1, len(c) + 1)[:, 1:]
            weight = decorrelate.off_diagonal_weight
            return (c.diagonal() - 1).square().sum() + weight * off.square().sum()

        for name, ours, plain in (
            ("dimension contrast", contrast, plain_contrast),
            ("decorrelation", twins, plain_twins),
        ):
            seconds = _interleaved([_both(ours, x), _both(plain, x)], device)
            times = [f"{1e3 * median(s):.2f}" for s in seconds]
            ratio = median(b / a for a, b in zip(*seconds, strict=True))
            rows.append([name, str(batch), str(dim), *times, f"{ratio:.2f}"])
    columns = ["term", "batch", "dim", "isospace, ms", "plain formula, ms", "times faster"]
    return {"title": "Terms, forward and backward", "columns": columns, "rows": rows}


def _growth(device: str) -> dict[str, Any]:
    """Time against size: the exponent of the best fitting power."""

    def whitened(batch: int, dim: int) -> Callable[[], None]:
        x, p = torch.randn(batch, dim, device=device), torch.randperm(dim, device=device)
        return _both(lambda x: whiten(x, groups=dim // 2, permutation=p, stop_gradient=True), x)

    def whitenedcse(positives: int) -> Callable[[], None]:
        objective = WhitenedCSE(num_views=positives + 1, head="none")
        head = objective.build_head(384, 0).to(device).train()
        x = torch.randn(positives + 1, 64, 384, device=device)
        return _both(lambda v: torch.stack(list(objective(Views(v, head(v))).values())).sum(), x)

    cases: list[tuple[str, tuple[int, ...], Callable[[int], Callable[[], None]]]] = [
        ("whitening in pairs, batch (dim 768)", (256, 512, 1024, 2048, 4096),
         lambda n: whitened(n, 768)),
        ("whitening in pairs, dim (batch 1024)", (128, 256, 512, 1024),
         lambda d: whitened(1024, d)),
        ("whitenedcse, positives (batch 64, dim 384)", (1, 2, 3, 4), whitenedcse),
    ]  # fmt: skip
    rows = []
    for name, sizes, make in cases:
        seconds = [median(s) for s in _interleaved([make(n) for n in sizes], device)]
        exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        shown = ", ".join(f"{n}: {1e3 * s:.2f}" for n, s in zip(sizes, seconds, strict=True))
        rows.append([name, shown, f"{exponent:.2f}"])
    columns = ["what grows", "ms", "exponent"]
    return {"title": "Cost as sizes grow, forward and backward", "columns": columns, "rows": rows}


def _both(function: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    """Forward and backward of a function of one tensor."""
    x = x.clone().requires_grad_()

    def run() -> None:
        x.grad = None
        out = function(x)
        out.backward(torch.ones_like(out))

    return run


def _interleaved(functions: list[Callable[[], None]], device: str) -> list[list[float]]:
    """Seconds of every round of every function; each round repeats until it is long enough."""
    repeats = []
    for function in functions:
        function()
        repeats.append(max(1, int(0.02 / _seconds(function, 1, device))))
    rounds = [
        [_seconds(f, n, device) for f, n in zip(functions, repeats, strict=True)]
        for _ in range(ROUNDS)
    ]
    return [list(column) for column in zip(*rounds, strict=True)]


def _seconds(function: Callable[[], None], repeats: int, device: str) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        function()
    if device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / repeats
