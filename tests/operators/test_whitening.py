"""Whitening by property, at degenerate input, against formulas and golden files."""

import numpy as np
import pytest
import torch
from golden_files import files, leaf, precisions, read, vector
from objective_views import random
from torch import Tensor
from torch.autograd import gradcheck

from isospace.operators.whitening import (
    INVERSE_ROOTS,
    centre,
    eigensystem,
    join_groups,
    pca,
    regularise,
    split_groups,
    whiten,
    zca,
    zca_pairs,
)

METHODS = sorted(INVERSE_ROOTS)


def covariance(x):
    """Of the rows (..., batch, dim)."""
    centred = x - x.mean(dim=-2, keepdim=True)
    return centred.mT @ centred / x.shape[-2]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("groups", "size"), [(1, 5), (2, 3), (3, 2), (4, 1)])
def test_every_group_has_identity_covariance(groups, size, scale, method):
    """Of a batch with a large mean and unequal scales."""
    dim = size * groups
    x = scale * (random(4 * size + 3, dim) * torch.linspace(0.5, 3, dim) + 5)
    out = whiten(x, groups=groups, method=method)
    assert out.mean(0).abs().max() < 1e-9
    for group in out.chunk(groups, dim=1):
        cov = np.atleast_2d(np.cov(group.numpy().T, ddof=0))
        np.testing.assert_allclose(cov, np.eye(len(cov)), atol=1e-7)


FULL_RANK = [(method, 9, groups, 8) for method in METHODS for groups in (1, 2, 4)]
DEFICIENT = [("zca", *sizes) for sizes in ((2, 1, 2), (2, 2, 8), (3, 1, 6), (4, 3, 15))]


@pytest.mark.parametrize(("method", "batch", "groups", "dim"), FULL_RANK + DEFICIENT)
def test_gradient_through_the_whitening_matrix(method, batch, groups, dim):
    x = random(batch, dim, seed=6).requires_grad_()
    weight = random(batch, dim, seed=7)
    assert gradcheck(lambda x: (whiten(x, groups=groups, method=method) * weight).sum(), x)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("gap", [0.0, 1e-7, 1e-4])
def test_zca_gradient_is_stable_in_float32_where_eigenvalues_nearly_meet(gap, groups):
    """In groups of two by the closed form, in one of four by divided differences."""
    signs = torch.tensor([[1.0, 1], [1, -1]], dtype=torch.float64)
    columns = torch.kron(torch.kron(signs, signs), signs)[:, 1:5]
    x = columns * (1 + gap * torch.arange(4)) @ torch.linalg.qr(random(4, 4))[0]
    found = []
    for precise in (x.float(), x.float().double()):
        leaf_of = precise.requires_grad_()
        out = whiten(leaf_of, groups=groups)
        found += torch.autograd.grad(out, leaf_of, random(8, 4, seed=1).to(out))
    torch.testing.assert_close(found[0].double(), found[1], rtol=0, atol=5e-6)


@pytest.mark.parametrize("stop_gradient", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.1])
@pytest.mark.parametrize(("batch", "groups"), [(6, 1), (4, 2), (9, 1), (20, 1), (20, 5)])
def test_values_and_gradients_are_those_of_the_matrix(batch, groups, eps, stop_gradient):
    """Of the columns: also where rows are fewer, and where groups of two have a closed form."""
    x = random(2, batch, 10).requires_grad_()
    parts = split_groups(centre(x), groups)
    with torch.set_grad_enabled(not stop_gradient):
        matrices = zca(regularise(parts.mT @ parts / batch, eps=eps))
    wanted = join_groups(parts @ matrices)
    out = whiten(x, groups=groups, eps=eps, stop_gradient=stop_gradient)
    torch.testing.assert_close(out, wanted, rtol=0, atol=1e-11)
    upstream = random(2, batch, 10, seed=1)
    found, expected = (torch.autograd.grad(y, x, upstream)[0] for y in (out, wanted))
    assert (found - expected).abs().max() < 1e-10 * expected.abs().max()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "rows",
    [
        torch.tensor([[1.0, 2, 3, 4, 5, 6, 7, 8], [3.0, 1, 4, 1, 5, 9, 2, 6]]),
        torch.full((5, 8), 3.3),
        torch.zeros(4, 8),
        torch.cat([random(6, 4).float(), torch.full((6, 4), -7.7)], dim=1),
        random(6, 4).float().repeat(1, 2),
        random(6, 8).float() * 1e-20,
    ],
    ids=["batch of 2", "constant", "zero", "constant columns", "equal columns", "tiny"],
)
def test_degenerate_batches_stay_finite(rows, groups, method, dtype):
    x = rows.to(dtype, copy=True).requires_grad_()
    out = whiten(x, groups=groups, method=method)
    out.square().sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()
    if method != "pca":  # whose outputs are components, not columns
        assert (out[:, (rows == rows[0]).all(0)] == 0).all()


@pytest.mark.parametrize("dim", [2, 3])
def test_a_nan_is_passed_on_and_not_hidden(dim):
    x = random(6, dim)
    x[1, 0] = float("nan")
    assert whiten(x).isnan().any()


def test_half_precision_is_computed_in_float32_also_under_autocast():
    x = random(16, 8).bfloat16()
    expected = whiten(x.float(), groups=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = whiten(x, groups=4)
    assert out.dtype == torch.float32
    assert torch.equal(out, expected)


def test_a_matrix_with_eps_or_shrinkage():
    cov = torch.tensor([[3.0, 1.0], [1.0, 1.0]])
    assert torch.equal(regularise(cov, eps=0.5), torch.tensor([[3.5, 1.0], [1.0, 1.5]]))
    assert torch.equal(regularise(cov, shrinkage=0.5), torch.tensor([[2.5, 0.5], [0.5, 1.5]]))


REFUSED = [(4, 0, r"0 groups .* \[1, 2, 4, 8\]"), (4, 3, r"3 groups .*"), (1, 1, r"\(1, 8\)")]


@pytest.mark.parametrize(("rows", "groups", "message"), REFUSED)
def test_impossible_groups_and_a_single_row_are_refused(rows, groups, message):
    with pytest.raises(ValueError, match=message):
        whiten(random(rows, 8), groups=groups)


class OnMPS(Tensor):
    """A matrix that says it is on MPS, where float64 does not exist."""

    @property
    def device(self):
        return torch.device("mps")

    def cpu(self):
        return self.as_subclass(Tensor)

    def double(self):
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype")


def test_eigensystems_of_mps_are_computed_on_the_cpu():
    matrix = torch.diag(torch.tensor([1.0, 3.0, 2.0]))
    eigenvalues, _ = eigensystem(matrix.as_subclass(OnMPS))
    assert eigenvalues.dtype == torch.float32
    assert eigenvalues.tolist() == [3.0, 2.0, 1.0]


@pytest.mark.parametrize("scale", [1e-16, 1e-6, 1.0, 1e6, 1e16])
def test_closed_form_of_the_symmetric_root_at_any_scale(scale):
    rows = random(40, 4, 2)
    rows[:10, :, 1] = 3 * rows[:10, :, 0]  # rank one
    rows[10] = 0
    wanted = []
    for c in (rows.mT @ rows).numpy():
        values, vectors = np.linalg.eigh(c)
        root = np.where(values > 1e-12, np.abs(values).clip(1e-12) ** -0.5, 0.0)
        wanted.append(vectors @ np.diag(root) @ vectors.T)
    covariance = (rows.mT @ rows * scale).float()
    entries = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    found = torch.stack(zca_pairs(*entries), dim=1) * scale**0.5
    assert np.allclose(found.numpy(), np.stack(wanted)[:, 0], rtol=1e-4, atol=1e-5)


def by_groups(x, permutation, groups):
    return split_groups(torch.take_along_dim(x.double(), permutation.unsqueeze(1), dim=-1), groups)


def sgw_tolerance(x, permutation, groups, precision):
    """Absolute tolerance of outputs; relative of gradients, matrix stopped and not."""
    spectrum = torch.linalg.eigvalsh(covariance(by_groups(x, permutation, groups)))
    condition = (spectrum[..., -1] / spectrum[..., 0]).max()
    mild = spectrum.shape[-1] <= 12 and condition < 500
    if precision == "f64":
        return 1e-9 if mild else 1e-8, 1e-8, 1e-7
    if condition > 3000:
        return 5e-4, 1e-4, 1e-4
    return 1e-5 if mild else 5e-5, 1e-5, 1e-4


@precisions
@files("sgw_")
def test_group_whitening(path, precision):
    file = read(path)
    names = ("perm", "perm_used", "perm1", "perm2", "perm3")
    permutations = torch.stack([file[name] for name in names if name in file])  # of each view
    x, groups = file["x"], int(file["groups"])
    views = x.reshape(len(permutations), -1, x.shape[-1])
    output, stopped, through = sgw_tolerance(views, permutations, groups, precision)
    x = leaf(views, precision)
    out, constant = (
        whiten(x, groups=groups, permutation=permutations, stop_gradient=stop)
        for stop in (False, True)
    )
    if "cholesky" in path.stem:  # a rotation of ours within a group has the same inner products
        theirs = file["out_f64"].view_as(views)
        found, expected = (by_groups(one, permutations, groups) for one in (out, theirs))
        limit = output * found.shape[-1]
        torch.testing.assert_close(found @ found.mT, expected @ expected.mT, rtol=0, atol=limit)
        return

    for key in {"out_f64", "out_f64_as_f32", "out_official_f32"} & file.keys():
        # Whatever was recorded in float32 cannot be matched more closely than that.
        single = sgw_tolerance(views, permutations, groups, "f32")[0] if "32" in key else 0.0
        expected = file[key].double().view_as(out)
        torch.testing.assert_close(out.double(), expected, rtol=0, atol=max(output, single))
    for key, result, rel in (
        ("grad_detached_official_f32", constant, stopped),
        ("grad_full_f64", out, through),
        ("grad_full_f64_as_f32", out, through),
    ):
        if key in file:
            loss = (result * file["upstream"].view_as(result)).sum()
            (gradient,) = torch.autograd.grad(loss, x, retain_graph=True)
            recorded = max(rel, 1e-5) if "f32" in key else rel
            vector(gradient, file[key].view_as(gradient), recorded)
    if "W_view1_f64" in file:
        cov = covariance(split_groups(views[0, :, permutations[0]].double(), groups))
        torch.testing.assert_close(cov, file["cov_view1_f64"], rtol=0, atol=1e-10)
        torch.testing.assert_close(zca(cov), file["W_view1_f64"], rtol=0, atol=1e-8)


@files("whiten_full")
@pytest.mark.parametrize("ddof", [0, 1])
def test_full_whitening(path, ddof):
    file = read(path)
    x = leaf(file["x"], "f64")
    scale = (1 - ddof / len(x)) ** 0.5  # of deviations with this divisor to those with n
    cov = covariance(x) / scale**2
    torch.testing.assert_close(cov, file[f"cov_ddof{ddof}"], rtol=0, atol=1e-10)
    for method, matrix in (("zca", zca), ("pca", pca)):
        torch.testing.assert_close(matrix(cov), file[f"W_{method}_ddof{ddof}"], rtol=0, atol=1e-8)
        out = scale * whiten(x, method=method)
        torch.testing.assert_close(out, file[f"out_{method}_ddof{ddof}"], rtol=0, atol=1e-8)
    for key, stop in (("full", False), ("detached", True)):
        loss = scale * (whiten(x, stop_gradient=stop) * file["upstream"]).sum()
        vector(torch.autograd.grad(loss, x)[0], file[f"grad_zca_{key}_ddof{ddof}"], 1e-7)
    out = whiten(file["x"], method="pca").double()
    torch.testing.assert_close(out @ out.T, file["gram_pca_ddof0"], rtol=0, atol=1e-4)


EPS = (1e-6, 1e-5, 1e-3)


def uneven(rows, dim):
    """Float32 rows with variances from 20 down to 0.01, about a mean that is not 0."""
    rows = random(rows, dim) * torch.logspace(1.3, -2, dim).sqrt() + random(dim, seed=1)
    return rows.float()


def matrix(x, eps):
    """`(C + eps I)^-1/2` in float64, with nothing left out."""
    centred = x.double() - x.double().mean(0)
    cov = centred.T @ centred / len(x)
    values, vectors = torch.linalg.eigh(cov + eps * torch.eye(x.shape[1]))
    return vectors @ values.rsqrt().diag() @ vectors.T


def gradient(x, upstream, eps, stop, method="zca"):
    x = x.clone().requires_grad_()
    out = whiten(x, eps=eps, stop_gradient=stop, method=method)
    assert out.dtype == x.dtype
    (found,) = torch.autograd.grad((out * upstream.to(out)).sum(), x)
    return found


@pytest.mark.parametrize("eps", EPS)
def test_float32_follows_the_formula(eps):
    """The papers' BERT-base and batch: the rounding of the largest variance is above every eps."""
    x, upstream = uneven(64, 768), random(64, 768, seed=2).float()
    root = matrix(x, eps)
    expected = (x.double() - x.double().mean(0)) @ root
    assert (whiten(x, eps=eps) - expected).norm() < 2e-3 * expected.norm()
    expected = upstream.double() @ root
    expected = (expected - expected.mean(0)).float()
    assert (gradient(x, upstream, eps, stop=True) - expected).norm() < 1e-4 * expected.norm()


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("eps", EPS)
def test_gradient_of_float32_is_that_of_float64(eps, stop):
    x, upstream = uneven(16, 96), random(16, 96, seed=2).float()
    found = gradient(x, upstream, eps, stop)
    expected = gradient(x.double(), upstream, eps, stop)
    assert found.isfinite().all()
    assert (found - expected).norm() < 2e-3 * expected.norm()


@pytest.mark.parametrize("method", ["zca", "pca"])
def test_a_smaller_eps_gives_a_larger_gradient_and_none_leaves_it_out(method):
    x, upstream = uneven(16, 96), random(16, 96, seed=2).float()
    sizes = [gradient(x, upstream, eps, True, method).norm().item() for eps in (*EPS, 0.0)]
    assert sizes[0] / sizes[1] == pytest.approx(10**0.5, rel=0.01)
    assert sizes[1] / sizes[2] == pytest.approx(10, rel=0.01)
    assert sizes[3] < 0.05 * sizes[2]
