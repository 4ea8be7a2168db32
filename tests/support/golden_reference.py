"""The formulas of the golden README once more, as dull as possible, for make_golden.py.

Loops over groups, sentences and dimensions; gradients by automatic differentiation of exactly these
loops. Nothing of isospace is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FOLDER = Path(__file__).parents[1] / "golden"


def draw(seed: int, *shape: int) -> Tensor:
    """Correlated rows with a common mean and unequal scales, float32."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    mix = torch.randn(shape[-1], shape[-1], generator=generator, dtype=torch.float64)
    return (x + 0.3 * x @ mix / shape[-1] ** 0.5 + 0.5).float()


def near(x: Tensor, seed: int) -> Tensor:
    return (x + 0.6 * draw(seed, *x.shape)).float()


def save(name: str, **arrays: object) -> None:
    plain = {k: v.detach().numpy() if isinstance(v, Tensor) else v for k, v in arrays.items()}
    np.savez_compressed(FOLDER / f"{name}.npz", **plain)


def with_gradients(
    key: str, inputs: dict[str, Tensor], loss: Callable[..., Tensor]
) -> dict[str, Tensor]:
    leaves = {k: x.double().requires_grad_() for k, x in inputs.items()}
    value = loss(*leaves.values())
    value.backward()
    gradients = {f"{key}grad_{k}_f64": x.grad for k, x in leaves.items() if x.grad is not None}
    return {f"{key}loss_f64": value, **gradients}


def cos(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / ((a * a).sum().sqrt() * (b * b).sum().sqrt())


def inverse_root(c: Tensor, method: str = "zca") -> Tensor:
    if method == "cholesky":
        return torch.linalg.inv(torch.linalg.cholesky(c)).T
    s, u = torch.linalg.eigh(c)
    if method == "pca":
        s, u = s.flip(0), u.flip(1)
        for k in range(len(s)):
            if u[u[:, k].abs().argmax(), k] < 0:
                u = torch.cat([u[:, :k], -u[:, k : k + 1], u[:, k + 1 :]], dim=1)
        return u * s**-0.5
    return u * s**-0.5 @ u.T


def group_whiten(
    x: Tensor, perm: Tensor, groups: int, *, detach: bool, method: str = "zca", ddof: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    n, dim = x.shape
    columns: dict[int, Tensor] = {}
    matrices, covariances = [], []
    for group in perm.reshape(groups, dim // groups):
        y = x[:, group]
        centred = y - y.mean(0)
        c = centred.T @ centred / (n - ddof)
        w = inverse_root(c.detach() if detach else c, method)
        covariances.append(c)
        matrices.append(w)
        for position, column in enumerate(group.tolist()):
            columns[column] = centred @ w[:, position]
    out = torch.stack([columns[j] for j in range(dim)], dim=1)
    return out, torch.stack(matrices), torch.stack(covariances)


def cross_entropy(rows: list[list[Tensor]]) -> Tensor:
    """Mean over i of -log softmax(row i) at i."""
    losses = [torch.stack(row).exp().sum().log() - row[i] for i, row in enumerate(rows)]
    return torch.stack(losses).mean()


def info_nce(a: Tensor, b: Tensor, tau: float) -> Tensor:
    return cross_entropy([[cos(x, y) / tau for y in b] for x in a])


def off_dropout(z1: Tensor, z2: Tensor, z0: Tensor, tau: float, m: float, paper: bool) -> Tensor:
    losses = []
    for i in range(len(z1)):
        positive = cos(z1[i], z2[i]) / tau
        negatives = sum((cos(z0[i], z0[j]) / tau).exp() for j in range(len(z1)) if j != i)
        if paper:
            losses.append(-(positive.exp() / (positive.exp() + m * negatives)).log())
        else:
            losses.append(-((m * positive).exp() / ((m * positive).exp() + negatives)).log())
    return torch.stack(losses).mean()


def columns(x: Tensor, ddof: int, eps: float) -> list[Tensor]:
    """The standardised columns of x."""
    centred = [c - c.mean() for c in x.T]
    return [c / ((c * c).sum() / (len(c) - ddof) + eps).sqrt() for c in centred]


def dimension_contrast(z1: Tensor, z2: Tensor, tau: float, form: str) -> Tensor:
    """form: official, or paper with the unbiased or the biased sigma."""
    n, dim = z1.shape
    ddof, eps = int(form == "paper_unbiased"), 1e-5 if form == "official" else 0.0
    a, b = columns(z1, ddof, eps), columns(z2, ddof, eps)
    divisor = tau * (n if form == "official" else 1)
    mean = cross_entropy([[(x * y).sum() / divisor for y in b] for x in a])
    return mean if form == "official" else mean * dim


def correlation(a: Tensor, b: Tensor, form: str, eps: float = 0.0) -> Tensor:
    """form: standardised, or raw / centred columns under Eq. 3 of SCD (printed) or cosine."""
    if form == "standardised":
        pairs = [[(x * y).sum() / len(a) for y in columns(b, 0, eps)] for x in columns(a, 0, eps)]
        return torch.stack([torch.stack(row) for row in pairs])
    if "centred" in form:
        a, b = a - a.mean(0), b - b.mean(0)
    rows = []
    for x in a.T:
        if "printed" in form:
            row = [(x * y).sum() / (x * x * y * y).sum().sqrt() for y in b.T]
        else:
            row = [cos(x, y) for y in b.T]
        rows.append(torch.stack(row))
    return torch.stack(rows)


def on_off(c: Tensor) -> tuple[Tensor, Tensor]:
    indices = range(len(c))
    on = sum(((1 - c[j, j]) ** 2 for j in indices), torch.zeros(()))
    off = sum((c[j, k] ** 2 for j in indices for k in indices if j != k), torch.zeros(()))
    return on, off


def batch_norm(x: Tensor) -> Tensor:
    return torch.stack(columns(x, 0, 1e-5), dim=1)
