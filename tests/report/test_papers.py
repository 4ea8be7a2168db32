"""What each paper's formula promises: special cases, loops, cases worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from isospace.objectives import (
    DCL,
    SCD,
    BarlowTwins,
    CovarianceIdentity,
    Iso,
    NoiseStudy,
    Objective,
    OffDropout,
    RankStudy,
    SimCSE,
    SimCSEPP,
    WhitenedCSE,
)
from isospace.objectives.barlow_twins import correlation_terms, diagonal_terms, unit_columns
from isospace.objectives.base import Views
from isospace.objectives.covariance_identity import identity_distance
from isospace.operators.similarity import info_nce, standardise


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def loss(objective: Objective, *projected: Tensor) -> float:
    views = torch.stack(projected)
    return sum(t.item() for t in objective(Views(views[: len(objective.views)], views)).values())


def looped_info_nce(a: Tensor, b: Tensor, tau: float) -> float:
    total = 0.0
    for i in range(len(a)):
        row = [math.exp(cosine_similarity(a[i], y, dim=0).item() / tau) for y in b]
        total -= math.log(row[i] / sum(row))
    return total / len(a)


def test_simcse_is_a_cross_entropy_in_one_direction() -> None:
    a, b = random(7, 5), random(7, 5, seed=1)
    assert loss(SimCSE(), a, b) == pytest.approx(looped_info_nce(a, b, 0.05))
    assert loss(SimCSE(), a, b) != pytest.approx(loss(SimCSE(), b, a))


def test_simcse_by_hand() -> None:
    """Two orthogonal sentences, equal views, tau 1: -log(e / (e + 1))."""
    z = torch.eye(2)
    assert loss(SimCSE(temperature=1.0), z, z) == pytest.approx(math.log(1 + math.exp(-1)))


def test_triples_without_weight_are_a_cross_entropy_of_twice_the_width() -> None:
    a, b, c = random(6, 4), random(6, 4, seed=1), random(6, 4, seed=2)
    logits = normalize(a) @ normalize(torch.cat([b, c])).T / 0.05
    expected = cross_entropy(logits, torch.arange(6)).item()
    assert loss(SimCSE(supervision="triples"), a, b, c) == pytest.approx(expected)
    assert loss(SimCSE(supervision="pairs"), a, b) == pytest.approx(loss(SimCSE(), a, b))
    heavier = SimCSE(supervision="triples", hard_negative_weight=1.0)
    assert loss(heavier, a, b, c) > expected


@pytest.mark.parametrize("form", ["l1", "l2", "l2-plus"])
def test_one_positive_is_info_nce(form: str) -> None:
    a, b = random(6, 4), random(6, 4, seed=1)
    objective = WhitenedCSE(num_views=2, loss=form)  # type: ignore[arg-type]
    assert loss(objective, a, b) == pytest.approx(loss(SimCSE(), a, b))


def test_l2_gives_the_least_similar_positive_the_largest_gradient() -> None:
    anchor = random(6, 8)
    near, far = anchor + 0.1 * random(6, 8, seed=1), anchor + 0.8 * random(6, 8, seed=2)

    def share_of_far(form: str) -> float:
        views = torch.stack([anchor, near, far]).requires_grad_()
        objective = WhitenedCSE(loss=form, temperature=0.5)  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad(objective(Views(views, views))["multi_positive"], views)
        return (gradient[2].norm() / gradient[1:].norm(dim=(1, 2)).sum()).item()

    assert share_of_far("l2") > share_of_far("l1") > share_of_far("l2-plus")


def test_printed_l2_pushes_positives_away() -> None:
    anchor = random(6, 8)
    objective = WhitenedCSE(num_views=2, loss="l2-printed")
    assert loss(objective, anchor, anchor) > loss(objective, anchor, random(6, 8, seed=1))


def test_full_whitening_has_one_group_and_the_default_groups_of_two() -> None:
    assert WhitenedCSE(whitening="zca").group_count(768) == 1
    assert WhitenedCSE().group_count(768) == 384
    assert WhitenedCSE(groups=128).group_count(768) == 128


@pytest.mark.parametrize("variant", ["released", "paper"])
def test_off_dropout_without_noise_is_info_nce_of_z_with_itself(variant: str) -> None:
    z = random(7, 5)
    objective = OffDropout(m=1.0, variant=variant)  # type: ignore[arg-type]
    assert loss(objective, z, z, z) == pytest.approx(looped_info_nce(z, z, 0.05))


def test_m_of_the_paper_enters_as_log_m_on_negatives() -> None:
    z1, z2, clean = (random(7, 5, seed=seed) for seed in range(3))
    logits = normalize(clean) @ normalize(clean).T / 0.05 + math.log(0.7)
    logits.diagonal().copy_(cosine_similarity(z1, z2) / 0.05)
    expected = cross_entropy(logits, torch.arange(7)).item()
    assert loss(OffDropout(m=0.7, variant="paper"), z1, z2, clean) == pytest.approx(expected)


@pytest.mark.parametrize("objective", [OffDropout(), SimCSEPP(), Iso()])
def test_gradient_flows_through_the_clean_view(objective: Objective) -> None:
    views = random(3, 7, 4).requires_grad_()
    sum(objective(Views(views, views)).values()).backward()
    assert views.grad[2].norm() > 0


def test_dimension_contrast_is_info_nce_of_standardised_columns() -> None:
    """Standardised columns have the norm sqrt(N - 1): cosine / (tau / (N - 1)), summed over D."""
    a, b = random(9, 5), random(9, 5, seed=1)
    objective = DCL(contrast_weight=0.0, dimension_weight=1.0, variant="paper")
    columns = standardise(a, ddof=1).T, standardise(b, ddof=1).T
    expected = 5 * looped_info_nce(*columns, tau=5.0 / 8)
    assert loss(objective, a, b) == pytest.approx(expected)


def test_simcsepp_is_the_sum_of_its_two_halves() -> None:
    z1, z2, clean = (random(9, 5, seed=seed) for seed in range(3))
    halves = loss(OffDropout(), z1, z2, clean) + loss(DCL(contrast_weight=0.0), z1, z2)
    assert loss(SimCSEPP(), z1, z2, clean) == pytest.approx(halves)


@pytest.mark.parametrize("part", ["positives", "negatives"])
@pytest.mark.parametrize("noise", ["less", "more"])
def test_noise_study_without_change_is_simcse(noise: str, part: str) -> None:
    z1, z2 = random(7, 5), random(7, 5, seed=1)
    objective = NoiseStudy(noise=noise, part=part, passes=2)  # type: ignore[arg-type]
    copies = 2 if noise == "less" else 1
    unchanged = loss(objective, z1, z2, *[z1] * copies, *[z2] * copies)
    assert unchanged == pytest.approx(loss(SimCSE(), z1, z2))


def test_noise_study_changes_the_named_part_only() -> None:
    z1, z2, c1, c2 = (random(7, 5, seed=seed) for seed in range(4))
    plain = normalize(z1) @ normalize(z2).T / 0.05
    changed = normalize(c1) @ normalize(c2).T / 0.05
    for part, diagonal, rest in (("positives", changed, plain), ("negatives", plain, changed)):
        logits = rest.clone()
        logits.diagonal().copy_(diagonal.diagonal())
        expected = cross_entropy(logits, torch.arange(7)).item()
        objective = NoiseStudy(part=part, passes=1)  # type: ignore[arg-type]
        assert loss(objective, z1, z2, c1, c2) == pytest.approx(expected)


def test_means_are_taken_over_the_passes_of_one_view() -> None:
    z1, z2, *passes = (random(7, 5, seed=seed) for seed in range(8))
    first, second = sum(passes[:3]) / 3, sum(passes[3:]) / 3
    three = loss(NoiseStudy(passes=3), z1, z2, *passes)
    assert three == pytest.approx(loss(NoiseStudy(passes=1), z1, z2, first, second))


def test_equal_views_correlate_perfectly_and_barlow_ignores_scale_and_shift() -> None:
    a, b = random(9, 5), random(9, 5, seed=1)
    torch.testing.assert_close(unit_columns(a).square().sum(0), torch.ones(5).double())
    objective = BarlowTwins(eps=0.0)
    assert loss(objective, 3 * a + 1, 0.1 * b - 7) == pytest.approx(loss(objective, a, b))


@pytest.mark.parametrize("batch", [2, 3, 9, 10, 40])
def test_the_terms_without_the_correlation_matrix_equal_those_of_the_matrix(batch: int) -> None:
    a, b = (unit_columns(random(batch, 20, seed=seed)).requires_grad_() for seed in (0, 1))
    found, wanted = correlation_terms(a, b), diagonal_terms(a.T @ b)
    torch.testing.assert_close(found, wanted)
    for one, other in zip(found, wanted, strict=True):
        gradients = (torch.autograd.grad(term, (a, b), retain_graph=True) for term in (one, other))
        torch.testing.assert_close(*gradients)


def test_rank_study_without_rows_is_simcse_plus_barlow_twins() -> None:
    a, b = random(9, 5), random(9, 5, seed=1)
    both = loss(SimCSE(), a, b) + 0.1 * loss(BarlowTwins(off_diagonal_weight=0.012), a, b)
    assert loss(RankStudy(), a, b) == pytest.approx(both)


def test_dilution_only_scales_the_barlow_term() -> None:
    views = random(2, 8, 5)
    plain = RankStudy()(Views(views, views))
    diluted = RankStudy(rows=24, rows_as="dilution")(Views(views, views))
    assert torch.equal(diluted["info_nce"], plain["info_nce"])
    for term in ("on_diagonal", "off_diagonal"):
        assert diluted[term].item() == pytest.approx(plain[term].item() * 8 / 32)


def test_uncentred_columns_see_a_common_shift() -> None:
    a, b = random(9, 5), random(9, 5, seed=1)
    for variant, sees in (("paper", True), ("released", False)):
        objective = RankStudy(variant=variant)  # type: ignore[arg-type]
        terms = [objective(Views(v, v)) for v in (torch.stack([a, b]), torch.stack([a, b]) + 3)]
        same = terms[0]["on_diagonal"].item() == pytest.approx(terms[1]["on_diagonal"].item())
        assert same is not sees


def test_scd_repels_what_the_encoder_gave_and_decorrelates_the_projection() -> None:
    h, p = random(2, 9, 4), random(2, 9, 6, seed=1)
    objective = SCD()
    terms = objective(Views(h, p))
    expected = sum(cosine_similarity(h[0, i], h[1, i], dim=0).item() for i in range(9)) / 9
    assert terms["self_contrast"].item() == pytest.approx(expected)
    barlow = BarlowTwins(off_diagonal_weight=0.013)(Views(h, p))
    for term, value in barlow.items():
        assert terms[term].item() == pytest.approx(0.005 * value.item())
    colder = SCD(temperature=0.05)(Views(h, p))
    assert colder["self_contrast"].item() == pytest.approx(20 * expected)


def test_covariance_penalty_ignores_scale_and_has_the_stated_floor() -> None:
    x = random(40, 6)
    assert identity_distance(7 * x).item() == pytest.approx(identity_distance(x).item())
    few = random(4, 12)
    centred = few - few.mean(0)
    u, _, v = torch.linalg.svd(centred, full_matrices=False)
    isotropic = u[:, :3] @ v[:3]
    assert identity_distance(isotropic).item() == pytest.approx(12 / 3 - 1)
    assert identity_distance(few).item() > 12 / 3 - 1
    assert identity_distance(torch.zeros(4, 3)).item() == 1.0


def test_covariance_identity_penalises_the_encoder_not_the_head() -> None:
    encoded, projected = random(2, 9, 4), random(2, 9, 4, seed=1)
    terms = CovarianceIdentity()(Views(encoded, projected))
    assert terms["info_nce"].item() == pytest.approx(looped_info_nce(*projected, tau=0.05))
    mean = sum(identity_distance(view).item() for view in encoded) / 2
    assert terms["covariance"].item() == pytest.approx(0.01 * mean)


def test_iso_is_off_dropout_per_positive_plus_contrast_of_the_encoders_dimensions() -> None:
    encoded, projected = random(4, 9, 4), random(4, 9, 4, seed=1)
    anchor, one, two, clean = projected
    terms = Iso(num_views=3, temperature=0.2)(Views(encoded, projected))
    expected = (
        sum(loss(OffDropout(m=1.0, temperature=0.2), anchor, p, clean) for p in (one, two)) / 2
    )
    assert terms["off_dropout"].item() == pytest.approx(expected)
    dimensions = loss(DCL(contrast_weight=0.0), encoded[0], encoded[1])
    assert terms["dimension_contrast"].item() == pytest.approx(dimensions)


def test_info_nce_stays_finite_at_tiny_temperatures() -> None:
    z = random(5, 3)
    assert info_nce(z, -z, 1e-4).isfinite()
