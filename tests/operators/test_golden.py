"""Whitening against reference numbers, values and gradients (see golden_files.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from golden_files import File, files, leaf, precisions, read, vector
from torch import Tensor
from torch.nn.functional import normalize

from isospace.operators.fitted_whitening import Moments, Whitening
from isospace.operators.inverse_sqrt import pca, zca
from isospace.operators.similarity import cosine_matrix
from isospace.operators.whitening import covariance, split_groups, whiten


def views_of(file: File) -> tuple[Tensor, Tensor]:
    """The input (view, batch, dim) and the permutation of every view."""
    permutations = [file[k] for k in ("perm", "perm_used", "perm1", "perm2", "perm3") if k in file]
    x = file["x"]
    return x.reshape(len(permutations), -1, x.shape[-1]), torch.stack(permutations)


def sgw_tolerance(x: Tensor, permutation: Tensor, groups: int, precision: str) -> tuple[float, ...]:
    """Absolute tolerance of outputs; relative of gradients, matrix stopped and not."""
    y = torch.take_along_dim(x.double(), permutation.unsqueeze(1), dim=-1)
    spectrum = torch.linalg.eigvalsh(covariance(split_groups(y, groups), ddof=0))
    condition = (spectrum[..., -1] / spectrum[..., 0]).max()
    mild = spectrum.shape[-1] <= 12 and condition < 500
    if precision == "f64":
        return 1e-9 if mild else 1e-8, 1e-8, 1e-7
    if condition > 3000:
        return 5e-4, 1e-4, 1e-4
    return 1e-5 if mild else 5e-5, 1e-5, 1e-4


@precisions
@files("sgw_")
def test_group_whitening(path: Path, precision: str) -> None:
    file = read(path)
    views, permutations = views_of(file)
    groups, method = int(file["groups"]), "cholesky" if "cholesky" in path.stem else "zca"
    output, stopped, through = sgw_tolerance(views, permutations, groups, precision)

    def run(stop: bool) -> tuple[Tensor, Tensor]:
        x = leaf(views, precision)
        return x, whiten(
            x, groups=groups, permutation=permutations, method=method, stop_gradient=stop
        )

    def compare(out: Tensor, key: str, atol: float) -> None:
        expected = file[key].double().view_as(out)
        # Whatever was recorded in float32 cannot be matched more closely than that.
        atol = (
            max(atol, sgw_tolerance(views, permutations, groups, "f32")[0]) if "32" in key else atol
        )
        torch.testing.assert_close(out.double(), expected, rtol=0, atol=atol)

    for key in ("out_f64", "out_f64_as_f32", "out_official_f32"):
        if key in file:
            compare(run(False)[1], key, output)
    for key, stop, rel in (
        ("grad_detached_official_f32", method == "zca", stopped),
        ("grad_full_f64", False, through),
        ("grad_full_f64_as_f32", False, through),
    ):
        if key in file:
            x, out = run(stop)
            (gradient,) = torch.autograd.grad((out * file["upstream"].view_as(out)).sum(), x)
            recorded = max(rel, 1e-5) if "f32" in key else rel
            vector(gradient, file[key].view_as(gradient), recorded)
    if "W_view1_f64" in file:
        grouped = split_groups(views[0, :, permutations[0]].double(), groups)
        cov = covariance(grouped, ddof=0)
        torch.testing.assert_close(cov, file["cov_view1_f64"], rtol=0, atol=1e-10)
        if method == "zca":
            torch.testing.assert_close(zca(cov), file["W_view1_f64"], rtol=0, atol=1e-8)


@files("whiten_full")
@pytest.mark.parametrize("ddof", [0, 1])
def test_full_whitening(path: Path, ddof: int) -> None:
    file = read(path)
    x = leaf(file["x"], "f64")
    cov = covariance(x, ddof=ddof)
    torch.testing.assert_close(cov, file[f"cov_ddof{ddof}"], rtol=0, atol=1e-10)
    for method, matrix in (("zca", zca), ("pca", pca)):
        torch.testing.assert_close(matrix(cov), file[f"W_{method}_ddof{ddof}"], rtol=0, atol=1e-8)
        out = whiten(x, method=method, ddof=ddof)
        torch.testing.assert_close(out, file[f"out_{method}_ddof{ddof}"], rtol=0, atol=1e-8)
    for key, stop in (("full", False), ("detached", True)):
        loss = (whiten(x, ddof=ddof, stop_gradient=stop) * file["upstream"]).sum()
        vector(torch.autograd.grad(loss, x)[0], file[f"grad_zca_{key}_ddof{ddof}"], 1e-7)
    out = whiten(file["x"], method="pca").double()
    torch.testing.assert_close(out @ out.T, file["gram_pca_ddof0"], rtol=0, atol=1e-4)


@files("bert_whitening")
@pytest.mark.parametrize("ddof", [0, 1])
def test_fitted_map(path: Path, ddof: int) -> None:
    file = read(path)
    dim = file["x"].shape[1]
    for name, k in (("kfull", dim), ("khalf", dim // 2)):
        setting = Whitening(shrinkage=0.0, dim=k)
        fitted = setting.fit(Moments.of(file["x"]), power=1.0, ddof=ddof)
        kernel = file[f"kernel_ddof{ddof}_{name}"]
        torch.testing.assert_close(fitted.kernel, kernel, rtol=0, atol=1e-8)
        torch.testing.assert_close(-fitted.mean, file["bias_minus_mean"], rtol=0, atol=1e-10)
        for rows, key in (("x", "whitened"), ("x_new", "whitened_new")):
            if f"{key}_ddof{ddof}_{name}" in file:
                out = normalize(fitted(file[rows].double()))
                expected = file[f"{key}_ddof{ddof}_{name}"]
                expected = normalize(expected)
                torch.testing.assert_close(out, expected, rtol=0, atol=1e-8)
        new = fitted(file["x_new"])
        if f"cosine_new_gram_ddof{ddof}_{name}" in file:
            gram = file[f"cosine_new_gram_ddof{ddof}_{name}"]
            torch.testing.assert_close(cosine_matrix(new, new).double(), gram, rtol=0, atol=1e-4)
