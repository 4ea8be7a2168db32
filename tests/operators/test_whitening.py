"""Whitening by property, at degenerate input, against numpy and golden files."""

import numpy as np
import pytest
import torch
from golden_files import files, leaf, precisions, read, vector
from hypothesis import given, settings, strategies as st
from objective_views import random
from torch.autograd import gradcheck

from isospace.operators.whitening import (
    INVERSE_ROOTS,
    centre,
    join_groups,
    pca,
    permute_columns,
    regularise,
    split_groups,
    whiten,
    zca,
)

METHODS = sorted(INVERSE_ROOTS)


def covariance(x):
    """Of the rows (..., batch, dim)."""
    centred = x - x.mean(dim=-2, keepdim=True)
    return centred.mT @ centred / x.shape[-2]


@st.composite
def batches(draw):
    """A well-conditioned batch with a large mean and unequal scales, and a number of groups."""
    size = draw(st.sampled_from([1, 2, 3, 5]))
    groups = draw(st.integers(1, 4))
    batch = draw(st.integers(4 * size, 40))
    x = random(batch, size * groups, seed=draw(st.integers(0, 2**31)))
    scale = 10.0 ** draw(st.floats(-3, 3))
    return scale * (x * torch.linspace(0.5, 3, x.shape[1]) + 5), groups


@settings(deadline=None, max_examples=40)
@given(batches(), st.sampled_from(METHODS))
def test_every_group_has_identity_covariance(case, method):
    x, groups = case
    out = whiten(x, groups=groups, method=method)
    assert out.mean(0).abs().max() < 1e-9
    for group in out.chunk(groups, dim=1):
        cov = np.atleast_2d(np.cov(group.numpy().T, ddof=0))
        np.testing.assert_allclose(cov, np.eye(len(cov)), atol=1e-7)


@settings(deadline=None, max_examples=30)
@given(batches(), st.integers(0, 1000))
def test_shuffling_is_undone(case, seed):
    x, groups = case
    permutation = torch.randperm(x.shape[1], generator=torch.Generator().manual_seed(seed))
    shuffled = whiten(x, groups=groups, permutation=permutation)
    by_hand = torch.empty_like(x)
    by_hand[:, permutation] = whiten(x[:, permutation], groups=groups)
    torch.testing.assert_close(shuffled, by_hand)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_gradient_through_the_whitening_matrix(method, groups):
    x = random(9, 8, seed=3).requires_grad_()
    weight = random(9, 8, seed=4)
    assert gradcheck(lambda x: (whiten(x, groups=groups, method=method) * weight).sum(), x)


@pytest.mark.parametrize("dim", [2, 4])
def test_zca_gradient_is_exact_where_eigenvalues_meet(dim):
    """Columns of a Hadamard-like design: the covariance is exactly a multiple of I."""
    signs = torch.tensor([[1.0, 1], [1, -1]], dtype=torch.float64)
    x = torch.kron(torch.kron(signs, signs), signs)[:, 1 : dim + 1].clone().requires_grad_()
    assert torch.equal(covariance(x), torch.eye(dim, dtype=torch.float64))
    weight = random(8, dim, seed=5)
    assert gradcheck(lambda x: (whiten(x) * weight).sum(), x)


@pytest.mark.parametrize(("batch", "groups", "dim"), [(2, 1, 2), (2, 2, 8), (3, 1, 6), (4, 3, 15)])
def test_zca_gradient_is_exact_in_rank_deficient_groups(batch, groups, dim):
    x = random(batch, dim, seed=6).requires_grad_()
    weight = random(batch, dim, seed=7)
    assert gradcheck(lambda x: (whiten(x, groups=groups) * weight).sum(), x)


def test_stopped_gradient_is_that_of_a_constant_matrix():
    x = random(12, 4).requires_grad_()
    upstream = random(12, 4, seed=1)
    (stopped,) = torch.autograd.grad((whiten(x, stop_gradient=True) * upstream).sum(), x)
    expected = upstream @ zca(covariance(x.detach())).T
    torch.testing.assert_close(stopped, expected - expected.mean(0))
    (through,) = torch.autograd.grad((whiten(x) * upstream).sum(), x)
    assert (through - stopped).norm() > 0.05 * stopped.norm()


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
    assert x.grad is not None
    assert out.isfinite().all()
    assert x.grad.isfinite().all()
    if method != "pca":  # whose outputs are components, not columns
        constant = (rows == rows[0]).all(0)
        assert (out[:, constant] == 0).all()


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


def test_views_are_whitened_one_by_one():
    x = random(3, 10, 6)
    permutations = torch.stack([torch.randperm(6) for _ in range(3)])
    together = whiten(x, groups=3, permutation=permutations)
    for view, permutation, out in zip(x, permutations, together, strict=True):
        torch.testing.assert_close(out, whiten(view, groups=3, permutation=permutation))
    moved = permute_columns(x, permutations)
    assert moved[1, 4, 2] == x[1, 4, permutations[1, 2]]


def test_eps_and_shrinkage():
    cov = torch.tensor([[3.0, 1.0], [1.0, 1.0]])
    assert torch.equal(regularise(cov, eps=0.5), torch.tensor([[3.5, 1.0], [1.0, 1.5]]))
    assert torch.equal(regularise(cov, shrinkage=0.5), torch.tensor([[2.5, 0.5], [0.5, 1.5]]))
    for groups in (1, 2):
        x = random(10, 2 * groups)[:, -2:]
        expected = zca(regularise(covariance(x), eps=0.1))
        out = whiten(random(10, 2 * groups), groups=groups, eps=0.1)[:, -2:]
        torch.testing.assert_close(out, (x - x.mean(0)) @ expected)


@pytest.mark.parametrize(
    ("rows", "groups", "message"),
    [(4, 0, r"0 groups .* \[1, 2, 4, 8\]"), (4, 3, r"3 groups .*"), (1, 1, r"\(1, 8\)")],
)
def test_impossible_groups_and_a_single_row_are_refused(rows, groups, message):
    with pytest.raises(ValueError, match=message):
        whiten(random(rows, 8), groups=groups)


def views_of(file):
    """The input (view, batch, dim) and the permutation of every view."""
    permutations = [file[k] for k in ("perm", "perm_used", "perm1", "perm2", "perm3") if k in file]
    x = file["x"]
    return x.reshape(len(permutations), -1, x.shape[-1]), torch.stack(permutations)


def sgw_tolerance(x, permutation, groups, precision):
    """Absolute tolerance of outputs; relative of gradients, matrix stopped and not."""
    y = torch.take_along_dim(x.double(), permutation.unsqueeze(1), dim=-1)
    spectrum = torch.linalg.eigvalsh(covariance(split_groups(y, groups)))
    condition = (spectrum[..., -1] / spectrum[..., 0]).max()
    mild = spectrum.shape[-1] <= 12 and condition < 500
    if precision == "f64":
        return 1e-9 if mild else 1e-8, 1e-8, 1e-7
    if condition > 3000:
        return 5e-4, 1e-4, 1e-4
    return 1e-5 if mild else 5e-5, 1e-5, 1e-4


def check_up_to_a_rotation(file, precision):
    """Cholesky's whitening is a rotation of ours within a group: inner products are the same."""
    views, permutations = views_of(file)
    groups = int(file["groups"])
    ours = whiten(leaf(views, precision), groups=groups, permutation=permutations)
    theirs = file["out_f64"].view_as(views)
    found, expected = (
        split_groups(torch.take_along_dim(x.double(), permutations.unsqueeze(1), dim=-1), groups)
        for x in (ours, theirs)
    )
    limit = sgw_tolerance(views, permutations, groups, precision)[0] * found.shape[-1]
    torch.testing.assert_close(found @ found.mT, expected @ expected.mT, rtol=0, atol=limit)


@precisions
@files("sgw_")
def test_group_whitening(path, precision):
    file = read(path)
    views, permutations = views_of(file)
    groups = int(file["groups"])
    if "cholesky" in path.stem:
        check_up_to_a_rotation(file, precision)
        return
    output, stopped, through = sgw_tolerance(views, permutations, groups, precision)

    def run(stop):
        x = leaf(views, precision)
        return x, whiten(x, groups=groups, permutation=permutations, stop_gradient=stop)

    def compare(out, key, atol):
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
        ("grad_detached_official_f32", True, stopped),
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
        cov = covariance(grouped)
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


@pytest.mark.parametrize("stop_gradient", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.1])
@pytest.mark.parametrize(("batch", "groups"), [(6, 1), (4, 2), (9, 1)])
def test_fewer_rows_than_columns_are_whitened_as_by_the_columns_matrix(
    batch, groups, eps, stop_gradient
):
    torch.manual_seed(0)
    x = torch.randn(2, batch, 10, dtype=torch.float64)
    wanted_x = x.clone().requires_grad_()
    x.requires_grad_()
    parts = split_groups(centre(wanted_x), groups)
    with torch.set_grad_enabled(not stop_gradient):
        matrices = zca(regularise(parts.mT @ parts / batch, eps=eps))
    wanted = join_groups(parts @ matrices)
    out = whiten(x, groups=groups, eps=eps, stop_gradient=stop_gradient)
    torch.testing.assert_close(out, wanted, rtol=0, atol=1e-11)
    gradient = torch.randn_like(wanted)
    wanted.backward(gradient)
    out.backward(gradient)
    assert wanted_x.grad is not None
    assert x.grad is not None
    assert (x.grad - wanted_x.grad).abs().max() < 1e-10 * wanted_x.grad.abs().max()
