"""Whitening by property, at degenerate and rank-deficient input, and against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from isospace.operators.inverse_sqrt import cholesky, eigensystem, newton_schulz, pca, zca
from isospace.operators.whitening import (
    INVERSE_ROOTS,
    covariance,
    momentum_update,
    permute_columns,
    regularise,
    whiten,
)

METHODS = sorted(INVERSE_ROOTS)
EXACT = ["cholesky", "pca", "zca"]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Tensor, int]:
    """A well-conditioned batch with a large mean and unequal scales, and a number of groups."""
    size = draw(st.sampled_from([1, 2, 3, 5]))
    groups = draw(st.integers(1, 4))
    batch = draw(st.integers(4 * size, 40))
    x = random(batch, size * groups, seed=draw(st.integers(0, 2**31)))
    scale = 10.0 ** draw(st.floats(-3, 3))
    return scale * (x * torch.linspace(0.5, 3, x.shape[1]) + 5), groups


@settings(deadline=None, max_examples=40)
@given(batches(), st.sampled_from(EXACT), st.sampled_from([0, 1]))
def test_every_group_has_identity_covariance_with_the_stated_ddof(
    case: tuple[Tensor, int], method: str, ddof: int
) -> None:
    x, groups = case
    out = whiten(x, groups=groups, method=method, ddof=ddof)
    assert out.mean(0).abs().max() < 1e-9
    for group in out.chunk(groups, dim=1):
        cov = np.atleast_2d(np.cov(group.numpy().T, ddof=ddof))
        np.testing.assert_allclose(cov, np.eye(len(cov)), atol=1e-7)


@settings(deadline=None, max_examples=30)
@given(batches())
def test_zca_matrix_is_symmetric_and_one_group_is_plain_whitening(
    case: tuple[Tensor, int],
) -> None:
    x, _ = case
    matrix = zca(covariance(x, ddof=0))
    torch.testing.assert_close(matrix, matrix.T, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(whiten(x), (x - x.mean(0)) @ matrix, rtol=1e-7, atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(batches(), st.integers(0, 1000))
def test_shuffling_is_undone(case: tuple[Tensor, int], seed: int) -> None:
    x, groups = case
    permutation = torch.randperm(x.shape[1], generator=torch.Generator().manual_seed(seed))
    shuffled = whiten(x, groups=groups, permutation=permutation)
    by_hand = torch.empty_like(x)
    by_hand[:, permutation] = whiten(x[:, permutation], groups=groups)
    torch.testing.assert_close(shuffled, by_hand)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([1, 6]))
def test_zca_with_one_group_or_all_groups_ignores_the_order_of_columns(
    seed: int, groups: int
) -> None:
    x = random(20, 6, seed=seed) * torch.arange(1, 7)
    permutation = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
    expected = whiten(x, groups=groups)[:, permutation]
    torch.testing.assert_close(whiten(x[:, permutation], groups=groups), expected)


@settings(deadline=None, max_examples=60)
@given(
    st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(-0.999, 0.999), st.sampled_from([32, 64])
)
def test_closed_form_equals_eigh(a: float, c: float, correlation: float, bits: int) -> None:
    dtype = torch.float32 if bits == 32 else torch.float64
    b = correlation * (a * c) ** 0.5
    matrix = torch.tensor([[a, b], [b, c]], dtype=dtype)
    s, u = eigensystem(matrix)
    expected = torch.linalg.eigvalsh(matrix.double()).flip(0)
    eps = torch.finfo(dtype).eps
    assert (s - expected).abs().max() < 8 * eps * expected[0]
    torch.testing.assert_close(u.T @ u, torch.eye(2, dtype=dtype), rtol=0, atol=4 * eps)
    torch.testing.assert_close(u * s @ u.T, matrix, rtol=0, atol=16 * eps * float(expected[0]))


class OnMPS(Tensor):
    """A matrix that says it is on MPS, where float64 does not exist."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("mps")

    def cpu(self) -> Tensor:  # type: ignore[override]
        return self.as_subclass(Tensor)

    def double(self) -> Tensor:  # type: ignore[override]
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype")


def test_eigensystems_of_mps_are_computed_on_the_cpu() -> None:
    matrix = torch.diag(torch.tensor([1.0, 3.0, 2.0]))
    eigenvalues, _ = eigensystem(matrix.as_subclass(OnMPS))
    assert eigenvalues.dtype == torch.float32
    assert eigenvalues.tolist() == [3.0, 2.0, 1.0]


def test_closed_form_keeps_a_small_variance_next_to_a_large_one() -> None:
    s, _ = eigensystem(torch.tensor([[1e4, 1.0], [1.0, 2e-4]]))
    assert s[1].item() == pytest.approx(1e-4, rel=1e-3)


@pytest.mark.parametrize("scale", [1e-16, 1e-6, 1.0, 1e6, 1e16])
def test_closed_form_of_the_symmetric_root_at_any_scale(scale: float) -> None:
    rows = random(40, 4, 2)
    rows[:10, :, 1] = 3 * rows[:10, :, 0]  # rank one
    rows[10] = 0
    wanted = []
    for c in (rows.mT @ rows).numpy():
        values, vectors = np.linalg.eigh(c)
        root = np.where(values > 1e-12, np.abs(values).clip(1e-12) ** -0.5, 0.0)
        wanted.append(vectors @ np.diag(root) @ vectors.T)
    found = zca((rows.mT @ rows * scale).float()) * scale**0.5
    assert np.allclose(found.numpy(), np.stack(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_gradient_through_the_whitening_matrix(method: str, groups: int) -> None:
    x = random(9, 8, seed=3).requires_grad_()
    weight = random(9, 8, seed=4)
    assert gradcheck(lambda x: (whiten(x, groups=groups, method=method, ddof=1) * weight).sum(), x)


def test_gradient_through_newton_schulz() -> None:
    x = random(9, 4, seed=3).requires_grad_()
    assert gradcheck(lambda x: whiten(x, method="newton-schulz"), x)


@pytest.mark.parametrize("dim", [2, 4])
def test_zca_gradient_is_exact_where_eigenvalues_meet(dim: int) -> None:
    """Columns of a Hadamard-like design: the covariance is exactly a multiple of I."""
    signs = torch.tensor([[1.0, 1], [1, -1]], dtype=torch.float64)
    x = torch.kron(torch.kron(signs, signs), signs)[:, 1 : dim + 1].clone().requires_grad_()
    assert torch.equal(covariance(x, ddof=0), torch.eye(dim, dtype=torch.float64))
    weight = random(8, dim, seed=5)
    assert gradcheck(lambda x: (whiten(x) * weight).sum(), x)


@pytest.mark.parametrize(("batch", "groups", "dim"), [(2, 1, 2), (2, 2, 8), (3, 1, 6), (4, 3, 15)])
def test_zca_gradient_is_exact_in_rank_deficient_groups(batch: int, groups: int, dim: int) -> None:
    x = random(batch, dim, seed=6).requires_grad_()
    weight = random(batch, dim, seed=7)
    assert gradcheck(lambda x: (whiten(x, groups=groups) * weight).sum(), x)


def test_stopped_gradient_is_that_of_a_constant_matrix() -> None:
    x = random(12, 4).requires_grad_()
    upstream = random(12, 4, seed=1)
    (stopped,) = torch.autograd.grad((whiten(x, stop_gradient=True) * upstream).sum(), x)
    expected = upstream @ zca(covariance(x.detach(), ddof=0)).T
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
def test_degenerate_batches_stay_finite(
    rows: Tensor, groups: int, method: str, dtype: torch.dtype
) -> None:
    x = rows.to(dtype, copy=True).requires_grad_()
    out = whiten(x, groups=groups, method=method)
    out.square().sum().backward()
    assert x.grad is not None
    assert out.isfinite().all()
    assert x.grad.isfinite().all()
    if method != "pca":  # whose outputs are components, not columns
        constant = (rows == rows[0]).all(0)
        assert (out[:, constant] == 0).all()


def test_equal_columns_share_one_unit_of_variance() -> None:
    x = random(50, 1).repeat(1, 2)
    torch.testing.assert_close(whiten(x).square().mean(0), torch.tensor([0.5, 0.5]).double())


@pytest.mark.parametrize("dim", [2, 3])
def test_a_nan_is_passed_on_and_not_hidden(dim: int) -> None:
    x = random(6, dim)
    x[1, 0] = float("nan")
    assert whiten(x).isnan().any()


def test_zca_moves_the_input_least_of_all_whitenings() -> None:
    x = random(40, 5) @ random(5, 5, seed=1)
    centred = x - x.mean(0)
    least = (whiten(x) - centred).norm()
    for seed in range(5):
        rotation, _ = torch.linalg.qr(random(5, 5, seed=seed))
        assert (whiten(x) @ rotation - centred).norm() > least
    assert (whiten(x, method="cholesky") - centred).norm() > least


def test_cholesky_is_triangular_and_newton_schulz_converges_to_zca() -> None:
    cov = covariance(random(60, 6) @ random(6, 6, seed=2), ddof=0)
    assert torch.equal(cholesky(cov), cholesky(cov).triu())
    errors = [(newton_schulz(cov, n) - zca(cov)).norm().item() for n in (5, 10, 30)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-9


def test_pca_sorts_by_variance_and_fixes_signs() -> None:
    x = random(50, 3) * torch.tensor([1.0, 10.0, 0.1])
    matrix = pca(covariance(x, ddof=0))
    largest = matrix.abs().argmax(0)
    assert largest.tolist() == [1, 0, 2]
    assert (matrix.gather(0, largest[None]) > 0).all()


def test_half_precision_is_computed_in_float32_also_under_autocast() -> None:
    x = random(16, 8).bfloat16()
    expected = whiten(x.float(), groups=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = whiten(x, groups=4)
    assert out.dtype == torch.float32
    assert torch.equal(out, expected)


def test_views_are_whitened_one_by_one() -> None:
    x = random(3, 10, 6)
    permutations = torch.stack([torch.randperm(6) for _ in range(3)])
    together = whiten(x, groups=3, permutation=permutations)
    for view, permutation, out in zip(x, permutations, together, strict=True):
        torch.testing.assert_close(out, whiten(view, groups=3, permutation=permutation))
    moved = permute_columns(x, permutations)
    assert moved[1, 4, 2] == x[1, 4, permutations[1, 2]]


def test_eps_and_shrinkage() -> None:
    cov = torch.tensor([[3.0, 1.0], [1.0, 1.0]])
    assert torch.equal(regularise(cov, eps=0.5), torch.tensor([[3.5, 1.0], [1.0, 1.5]]))
    assert torch.equal(regularise(cov, shrinkage=0.5), torch.tensor([[2.5, 0.5], [0.5, 1.5]]))
    x = random(10, 4)
    expected = zca(regularise(covariance(x, ddof=1), eps=0.1, shrinkage=0.2))
    out = whiten(x, ddof=1, eps=0.1, shrinkage=0.2)
    torch.testing.assert_close(out, (x - x.mean(0)) @ expected)


def test_momentum_update_is_equation_13() -> None:
    assert momentum_update(torch.tensor(1.0), torch.tensor(3.0), 0.75).item() == 1.5


@pytest.mark.parametrize("groups", [0, 3, 9])
def test_impossible_groups_name_the_possible_ones(groups: int) -> None:
    with pytest.raises(ValueError, match=rf"8 dimensions .* {groups} groups .* \[1, 2, 4, 8\]"):
        whiten(random(4, 8), groups=groups)


def test_a_single_row_is_refused() -> None:
    with pytest.raises(ValueError, match=r"batch >= 2.*\(1, 8\)"):
        whiten(random(1, 8))
