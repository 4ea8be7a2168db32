"""Whitening that is fitted once, on texts or on pairs: statistics, shrinkage, maps, golden files."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from golden_files import files, read
from hypothesis import given, settings, strategies as st
from objective_views import random
from sklearn.covariance import ledoit_wolf_shrinkage
from torch.nn.functional import normalize

from isospace.operators.fitted_whitening import SHRINKAGE, Moments, PairMoments, Whitening
from isospace.operators.similarity import cosine_matrix

PLAIN = Whitening(shrinkage=0.0)


def vectors(n=200, dim=6, seed=0):
    """Correlated columns of unequal scale, far from the origin."""
    scale = torch.logspace(0, -2, dim, dtype=torch.float64)
    return random(n, dim, seed=seed) * scale @ random(dim, dim, seed=seed + 7) + 3


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 40), max_size=5), st.integers(0, 2**31))
def test_any_batches_merge_to_the_sums_about_the_mean(cuts, seed):
    x = vectors(40, 3, seed)
    merged = Moments.from_vectors(x[:0])
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(x)], strict=True):
        merged += Moments.from_vectors(x[start:end])
    d = x.numpy() - x.numpy().mean(0)
    squares = (d**2).sum(1)
    assert merged.count == len(x)
    np.testing.assert_allclose(merged.mean, x.numpy().mean(0), rtol=1e-10)
    for found, expected in ((merged.scatter, d.T @ d), (merged.third, squares @ d)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    assert float(merged.fourth) == pytest.approx((squares**2).sum(), rel=1e-10)


def test_a_far_mean_costs_no_digits():
    x = vectors() + 1e6
    merged = Moments.from_vectors(x[:70]) + Moments.from_vectors(x[70:])
    np.testing.assert_allclose(merged.covariance(), np.cov(x.numpy().T), rtol=1e-6)


@pytest.mark.parametrize(("n", "dim"), [(5, 20), (30, 6), (2000, 6), (40, 1)])
def test_ledoit_wolf_is_scikit_learns(n, dim):
    x = vectors(n, dim)
    moments = Moments.from_vectors(x[: n // 3]) + Moments.from_vectors(x[n // 3 :])
    assert moments.ledoit_wolf() == pytest.approx(ledoit_wolf_shrinkage(x.numpy()), rel=1e-9)


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_the_covariance_has_its_eigenvalues_to_the_power_that_is_left(power):
    x = vectors()
    out = PLAIN.fit(Moments.from_vectors(x), power)(x)
    before = np.linalg.eigvalsh(np.cov(x.numpy().T))
    after = np.linalg.eigvalsh(np.cov(out.numpy().T))
    np.testing.assert_allclose(after, np.sort(before ** (1 - power)), rtol=1e-8)
    np.testing.assert_allclose(out.mean(0), 0, atol=1e-9)


def test_power_0_centres_and_turns_and_does_no_more():
    """New sentences keep their inner products about the mean."""
    x, new = vectors(), vectors(seed=1)
    centred = new - x.mean(0)
    out = PLAIN.fit(Moments.from_vectors(x), 0.0)(new)
    torch.testing.assert_close(out @ out.T, centred @ centred.T)


def test_shrinkage_is_relative_to_the_mean_variance():
    x = vectors()
    all_of_it = Whitening(shrinkage=1.0).fit(Moments.from_vectors(x), 1.0)(x)
    variance = np.trace(np.cov(x.numpy().T)) / 6
    centred = x - x.mean(0)
    torch.testing.assert_close(all_of_it @ all_of_it.T, centred @ centred.T / variance)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_directions_that_are_float32s_rounding_are_left_out(power):
    noise = 1e-8 * torch.randn(200, 1, generator=torch.Generator().manual_seed(1))
    x = torch.cat([vectors(), 5 + noise, torch.ones(200, 1)], dim=1)
    out = PLAIN.fit(Moments.from_vectors(x), power)(x)
    assert (out[:, :6].std(0) > 0).all()
    assert (out[:, 6:] == 0).all()


def test_with_shrinkage_they_are_kept_and_lengthened_most():
    x = torch.cat([vectors(), torch.ones(200, 1)], dim=1)
    lengths = Whitening().fit(Moments.from_vectors(x), 1.0).kernel.norm(dim=1)
    assert lengths.argmax() == 6


def test_fewer_sentences_than_dimensions_need_shrinkage():
    x = vectors(10, 32)
    out = Whitening().fit(Moments.from_vectors(x), 1.0)(vectors(50, 32, seed=1))
    assert out.isfinite().all()
    assert np.linalg.matrix_rank(out) == 32
    with pytest.raises(ValueError, match="more than 32 sentences; got 10"):
        PLAIN.fit(Moments.from_vectors(x), 1.0)


@pytest.mark.parametrize(
    ("x", "setting", "power", "message"),
    [
        (vectors(), Whitening(kind="ica"), 0.5, "`kind` .* ica"),
        (vectors(), Whitening(dim=7), 0.5, "`dim` .* 7"),
        (vectors(), Whitening(kind="flow", dim=2), 0.5, "`dim` .* flow"),
        (vectors(), Whitening(shrinkage=1.5), 0.5, r"`shrinkage` .* 1\.5"),
        (vectors(), PLAIN, float("nan"), "power .* nan"),
        (torch.full((5, 4), 3.3), Whitening(), 0.5, "two or more different vectors; got 5"),
        (torch.tensor([[1.0, 2.0], [float("nan"), 0.0]]), Whitening(), 0.5, "NaN or infinity"),
    ],
)
def test_impossible_settings_and_vectors_without_spread_are_refused(x, setting, power, message):
    with pytest.raises(ValueError, match=message):
        setting.fit(Moments.from_vectors(x), power)


@files("bert_whitening")
@pytest.mark.parametrize("ddof", [0, 1])
def test_fitted_map(path, ddof):
    file = read(path)
    dim = file["x"].shape[1]
    for name, k in (("kfull", dim), ("khalf", dim // 2)):
        fitted = Whitening(shrinkage=0.0, dim=k).fit(Moments.from_vectors(file["x"]), power=1.0)
        if not ddof:  # variances are divided by n, and not by n - 1
            n = len(file["x"])
            fitted = replace(fitted, kernel=fitted.kernel * (n / (n - 1)) ** 0.5)
        kernel = file[f"kernel_ddof{ddof}_{name}"]
        torch.testing.assert_close(fitted.kernel, kernel, rtol=0, atol=1e-8)
        torch.testing.assert_close(-fitted.mean, file["bias_minus_mean"], rtol=0, atol=1e-10)
        for rows, key in (("x", "whitened"), ("x_new", "whitened_new")):
            if f"{key}_ddof{ddof}_{name}" in file:
                out = normalize(fitted(file[rows].double()))
                expected = normalize(file[f"{key}_ddof{ddof}_{name}"])
                torch.testing.assert_close(out, expected, rtol=0, atol=1e-8)
        new = fitted(file["x_new"])
        torch.testing.assert_close(fitted(file["x_new"].float()), new.float(), rtol=1e-3, atol=1e-3)
        if f"cosine_new_gram_ddof{ddof}_{name}" in file:
            gram = file[f"cosine_new_gram_ddof{ddof}_{name}"]
            torch.testing.assert_close(cosine_matrix(new, new).double(), gram, rtol=0, atol=1e-4)


def pairs(n=200, dim=6, seed=0):
    """Pairs about common points; they differ most in other directions than the points do."""
    common, first, second = (random(n, dim, seed=seed + 100 * place) for place in range(3))
    spread = torch.logspace(0, -1, dim, dtype=torch.float64)
    points = common * spread @ random(dim, dim, seed=seed + 7) + 3
    return points + first * spread.flip(0), points + second * spread.flip(0) + 0.5


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_it_is_relevant_component_analysis_up_to_a_rotation(power):
    """W^(-p/2) of chunks of two texts, each about its own mean."""
    x, y = pairs()
    chunks = np.stack([x.numpy(), y.numpy()])
    centred = (chunks - chunks.mean(0)).reshape(-1, x.shape[1])
    values, axes = np.linalg.eigh(2 * centred.T @ centred / len(centred))
    new, _ = pairs(seed=1)
    moments = PairMoments.from_pairs(x[:9], y[:9]) + PairMoments.from_pairs(x[9:], y[9:])
    expected = new.numpy() @ (axes * values ** (-power / 2)) @ axes.T
    found = moments.fit(power, PLAIN)(new).numpy()
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, rtol=1e-8)


def test_queries_alone_have_the_inner_products_of_both_sides():
    x, y = pairs()
    queries, documents = pairs(50, seed=1)
    moments = PairMoments.from_pairs(x, y)
    both, alone = moments.fit(0.5), moments.fit_queries(0.5)
    torch.testing.assert_close(both(queries) @ both(documents).T, alone(queries) @ documents.T)


def test_dimensions_are_sorted_so_that_cutting_is_keeping():
    x, y = pairs()
    moments = PairMoments.from_pairs(x, y)
    whole, kept = moments.fit(0.75), moments.fit(0.75, Whitening(dim=2))
    torch.testing.assert_close(kept(x), whole(x)[:, :2])
    assert np.all(np.diff(whole(torch.cat([x, y])).var(0).numpy()) < 0)


@pytest.mark.parametrize(("n", "least"), [(200, True), (4, False)])
def test_the_shrinkage_is_ledoit_wolfs_or_the_least(n, least):
    """Of few pairs it is more, by scikit-learn's estimate about the known mean of zero."""
    x, y = pairs(n, 32)
    estimated = ledoit_wolf_shrinkage(0.5**0.5 * (x - y).numpy(), assume_centered=True)
    assert (estimated < SHRINKAGE) == least
    moments = PairMoments.from_pairs(x, y)
    known = Whitening(shrinkage=max(SHRINKAGE, estimated))
    found, expected = (fitted(x) for fitted in (moments.fit(0.75), moments.fit(0.75, known)))
    torch.testing.assert_close(found @ found.T, expected @ expected.T)


def test_one_pair_is_enough_with_shrinkage():
    x, y = pairs(1, 8)
    out = PairMoments.from_pairs(x, y).fit(1.0)(pairs(20, 8, seed=1)[0])
    assert out.isfinite().all()
    assert np.linalg.matrix_rank(out) == 8


def test_without_shrinkage_directions_in_which_no_pair_differs_are_left_out():
    x, y = pairs()
    x, y = (torch.cat([side, torch.ones(200, 1, dtype=torch.float64)], 1) for side in (x, y))
    moments = PairMoments.from_pairs(x, y)
    far = torch.tensor([[0.0] * 6 + [1e3]], dtype=torch.float64)
    assert not moments.fit(0.5, PLAIN)(far).any()
    assert moments.fit(0.5)(far).any()


@pytest.mark.parametrize(
    ("sides", "setting", "message"),
    [
        ((torch.ones(5, 4), torch.ones(5, 4)), {"power": 0.5}, "different texts; got 5"),
        ((torch.ones(5, 4), torch.full((5, 4), float("nan"))), {"power": 0.5}, "infinity"),
        (pairs(), {"power": 1.1}, r"in 0\.\."),
        (pairs(), {"power": 0.5, "settings": Whitening(shrinkage=1.5)}, r"`shrinkage` .* 1\.5"),
        (pairs(), {"power": 0.5, "settings": Whitening(dim=99)}, "`dim` .* 99"),
    ],
)
def test_pairs_without_spread_and_settings_out_of_range_are_refused(sides, setting, message):
    with pytest.raises(ValueError, match=message):
        PairMoments.from_pairs(*sides).fit(**setting)
