"""Whitening by pairs: its sums by a loop, relevant component analysis, invariances, odd pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isospace.operators.fitted_whitening import SHRINKAGE, PairMoments
from isospace.operators.similarity import cosine_matrix


def pairs(n: int = 200, dim: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Pairs about common points; they differ most in other directions than the points do."""
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randn(n, dim, generator=generator, dtype=torch.float64) for _ in range(3)]
    mixing = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
    points = draw[0] * torch.logspace(0, -1, dim, dtype=torch.float64) @ mixing + 3
    scale = torch.logspace(-1, 0, dim, dtype=torch.float64)
    return points + draw[1] * scale, points + draw[2] * scale + 0.5


def within_by_loop(x: Tensor, y: Tensor) -> np.ndarray:
    """The covariance within pairs, one pair and one entry at a time."""
    dim = x.shape[1]
    total = [[0.0] * dim for _ in range(dim)]
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        for i in range(dim):
            for j in range(dim):
                total[i][j] += (a[i] - b[i]) * (a[j] - b[j])
    return np.array(total) / (2 * len(x))


def relevant_components(x: Tensor, y: Tensor, power: float) -> np.ndarray:
    """W^(-p/2) as in relevant component analysis: chunks of two texts, each about its own mean."""
    chunks = np.stack([x.numpy(), y.numpy()])
    centred = (chunks - chunks.mean(0)).reshape(-1, x.shape[1])
    values, axes = np.linalg.eigh(2 * centred.T @ centred / len(centred))
    return (axes * values ** (-power / 2)) @ axes.T


def test_the_covariance_is_that_of_the_formula_and_of_both_orders() -> None:
    x, y = pairs()
    found = PairMoments.from_pairs(x, y)
    np.testing.assert_allclose(found.within.covariance(ddof=0), within_by_loop(x, y), rtol=1e-10)
    turned = PairMoments.from_pairs(y, x)
    torch.testing.assert_close(turned.within.scatter, found.within.scatter)
    assert not found.within.mean.any()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 40), max_size=5), st.integers(0, 2**31))
def test_any_batches_merge_to_the_moments_of_all(cuts: list[int], seed: int) -> None:
    x, y = pairs(40, 3, seed)
    merged = PairMoments.from_pairs(x[:0], y[:0])
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(x)], strict=True):
        merged += PairMoments.from_pairs(x[start:end], y[start:end])
    whole = PairMoments.from_pairs(x, y)
    assert merged.within.count == 40
    torch.testing.assert_close(merged.within.scatter, whole.within.scatter)
    torch.testing.assert_close(merged.within.fourth, whole.within.fourth)
    torch.testing.assert_close(merged.texts.scatter, whole.texts.scatter)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_it_is_relevant_component_analysis_up_to_a_rotation(power: float) -> None:
    x, y = pairs()
    new, _ = pairs(seed=1)
    moments = PairMoments.from_pairs(x, y)
    expected = new.numpy() @ relevant_components(x, y, power)
    found = moments.fit(power, shrinkage=0.0)(new).numpy()
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, rtol=1e-8)


def test_full_whitening_undoes_a_linear_map_of_the_input() -> None:
    x, y = pairs()
    new, _ = pairs(50, seed=1)
    generator = torch.Generator().manual_seed(2)
    mixing = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    changed = [side @ mixing for side in (x, y, new)]
    before = PairMoments.from_pairs(x, y).fit(1.0, shrinkage=0.0)(new)
    after = PairMoments.from_pairs(*changed[:2]).fit(1.0, shrinkage=0.0)(changed[2])
    torch.testing.assert_close(after @ after.T, before @ before.T, rtol=1e-6, atol=1e-6)


def test_pairs_then_differ_alike_in_all_directions() -> None:
    x, y = pairs()
    fitted = PairMoments.from_pairs(x, y).fit(1.0, shrinkage=0.0)
    within = PairMoments.from_pairs(fitted(x), fitted(y)).within.covariance(ddof=0)
    torch.testing.assert_close(within, torch.eye(6, dtype=torch.float64), rtol=0, atol=1e-9)


def test_queries_alone_have_the_inner_products_of_both_sides() -> None:
    x, y = pairs()
    queries, documents = pairs(50, seed=1)
    moments = PairMoments.from_pairs(x, y)
    both = moments.fit(0.5)
    alone = moments.fit_queries(0.5)
    torch.testing.assert_close(both(queries) @ both(documents).T, alone(queries) @ documents.T)


def test_dimensions_are_sorted_so_that_cutting_is_keeping() -> None:
    x, y = pairs()
    moments = PairMoments.from_pairs(x, y)
    whole, kept = moments.fit(0.75), moments.fit(0.75, dim=2)
    torch.testing.assert_close(kept(x), whole(x)[:, :2])
    assert np.all(np.diff(whole(torch.cat([x, y])).var(0).numpy()) < 0)


def test_power_0_changes_no_cosine() -> None:
    x, y = pairs()
    plain = PairMoments.from_pairs(x, y).fit(0.0)(x)
    torch.testing.assert_close(cosine_matrix(plain, plain), cosine_matrix(x, x))


def test_a_shift_between_the_sides_is_whitened_away() -> None:
    """Questions that all differ from their answers in one way find them once it is shortened."""
    x, y = pairs(400, 16)
    shifted = y + 20 * torch.eye(16, dtype=torch.float64)[0]
    fitted = PairMoments.from_pairs(x, shifted).fit(1.0)
    before, after = cosine_matrix(x, shifted), cosine_matrix(fitted(x), fitted(shifted))
    found = [(scores.argmax(1) == torch.arange(400)).double().mean() for scores in (before, after)]
    assert found[1] > 2 * found[0]


@pytest.mark.parametrize(("n", "least"), [(200, True), (4, False)])
def test_the_shrinkage_is_ledoit_wolfs_or_the_least(n: int, least: bool) -> None:
    """Of few pairs it is more, by scikit-learn's estimate about the known mean of zero."""
    from sklearn.covariance import ledoit_wolf_shrinkage

    x, y = pairs(n, 32)
    differences = 0.5**0.5 * (x - y).numpy()
    estimated = ledoit_wolf_shrinkage(differences, assume_centered=True)
    assert (estimated < SHRINKAGE) == least
    moments = PairMoments.from_pairs(x, y)
    found, expected = (
        fitted(x)
        for fitted in (moments.fit(0.75), moments.fit(0.75, shrinkage=max(SHRINKAGE, estimated)))
    )
    torch.testing.assert_close(found @ found.T, expected @ expected.T)


def test_one_pair_is_enough_with_shrinkage() -> None:
    x, y = pairs(1, 8)
    out = PairMoments.from_pairs(x, y).fit(1.0)(pairs(20, 8, seed=1)[0])
    assert out.isfinite().all()
    assert np.linalg.matrix_rank(out) == 8


def test_without_shrinkage_directions_in_which_no_pair_differs_are_left_out() -> None:
    x, y = pairs()
    x, y = (torch.cat([side, torch.ones(200, 1, dtype=torch.float64)], 1) for side in (x, y))
    moments = PairMoments.from_pairs(x, y)
    far = torch.tensor([[0.0] * 6 + [1e3]], dtype=torch.float64)
    assert not moments.fit(0.5, shrinkage=0.0)(far).any()
    assert moments.fit(0.5)(far).any()


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.ones(5, 4), torch.ones(5, 4), "different texts; got 5"),
        (torch.ones(0, 4), torch.ones(0, 4), "different texts; got 0"),
        (torch.ones(2, 4), torch.full((2, 4), float("nan")), "infinity"),
        (torch.ones(2, 4), torch.ones(3, 4), r"\(2, 4\) and \(3, 4\)"),
        (torch.ones(4), torch.ones(4), r"\(n, dim\)"),
    ],
)
def test_pairs_of_which_nothing_can_be_estimated_are_refused(
    x: Tensor, y: Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PairMoments.from_pairs(x, y).fit(0.5)


@pytest.mark.parametrize(
    "setting", [{"power": 1.1}, {"power": 0.5, "shrinkage": 2.0}, {"power": 0.5, "dim": 7}]
)
def test_settings_out_of_their_range_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"in [01]\.\."):
        PairMoments.from_pairs(*pairs()).fit(**setting)
