"""What terms and heads do with their views, by hand and by invariances."""

import pytest
import torch
from golden_files import files, read
from objective_views import loss, random
from torch.nn.functional import cross_entropy, normalize

from isospace.losses import identity_distance, info_nce, pair_layout
from isospace.losses.correlation import correlation_terms, diagonal_terms, unit_columns
from isospace.objectives import PCL, ArcCSE, CovarianceIdentity, NoiseStudy, RankStudy
from isospace.objectives.heads import GaussianCopies, seeded
from isospace.views import Views


def test_the_study_of_noise_changes_the_named_part_only():
    z1, z2, c1, c2 = (random(7, 5, seed=seed) for seed in range(4))
    plain = normalize(z1) @ normalize(z2).T / 0.05
    changed = normalize(c1) @ normalize(c2).T / 0.05
    for part, diagonal, rest in (("positives", changed, plain), ("negatives", plain, changed)):
        logits = rest.clone()
        logits.diagonal().copy_(diagonal.diagonal())
        expected = cross_entropy(logits, torch.arange(7)).item()
        assert loss(NoiseStudy(part=part, passes=1), z1, z2, c1, c2) == pytest.approx(expected)


def test_less_noise_is_the_mean_of_the_passes_of_one_view():
    z1, z2, *passes = (random(7, 5, seed=seed) for seed in range(8))
    first, second = sum(passes[:3]) / 3, sum(passes[3:]) / 3
    three = loss(NoiseStudy(passes=3), z1, z2, *passes)
    assert three == pytest.approx(loss(NoiseStudy(passes=1), z1, z2, first, second))


def test_more_noise_has_the_stated_variance():
    views = random(2, 400, 20)
    out = GaussianCopies(0.1, seeded(0))(views)
    assert torch.equal(out[:2], views)
    assert (out[2:] - views).var().item() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("batch", [2, 10, 40])
def test_the_terms_without_the_correlation_matrix_equal_those_of_the_matrix(batch):
    a, b = (unit_columns(random(batch, 20, seed=seed)).requires_grad_() for seed in (0, 1))
    found, wanted = correlation_terms(a, b), diagonal_terms(a.T @ b)
    torch.testing.assert_close(found, wanted)
    for one, other in zip(found, wanted, strict=True):
        gradients = (torch.autograd.grad(term, (a, b), retain_graph=True) for term in (one, other))
        torch.testing.assert_close(*gradients)


def test_only_uncentred_columns_see_a_common_shift():
    views = random(2, 9, 5)
    for variant, sees in (("paper", True), ("released", False)):
        objective = RankStudy(variant=variant)
        here, there = (objective(Views(v, v))["on_diagonal"].item() for v in (views, views + 3))
        assert (here == pytest.approx(there)) is not sees


def test_artificial_rows_are_fixed_and_no_weights_of_a_head(monkeypatch):
    drawn, randn, x = [], torch.randn, random(2, 6, 8)
    monkeypatch.setattr(torch, "randn", lambda *a, **k: drawn.append(randn(*a, **k)) or drawn[-1])
    for _ in range(2):
        RankStudy(rows=4)(Views(x, x))
    assert torch.equal(*drawn)
    for seed in (0, 1, 42):
        weights = RankStudy().build_head(8, seed).dense.weight.detach()
        assert not torch.allclose(weights[:4] / 0.02, drawn[0], atol=1e-4)


@files("baselines/ct_pairs")
def test_pairs_of_ct_are_the_authors(path):
    file = read(path)
    positives, k = file["positive_draws"], int(file["num_negatives"])
    draws = file["negative_draws"].view(len(positives), 2, k)
    for with_positive, key in ((False, "official"), (True, "paper")):
        first, second, labels = pair_layout(positives, draws, with_positive=with_positive)
        assert first.tolist() == file[f"{key}_first"].tolist()
        assert second.tolist() == file[f"{key}_second"].tolist()
        assert labels.tolist() == file["official_labels"].tolist()


def test_a_frozen_peer_is_a_constant():
    views = random(12, 4, 5).requires_grad_()
    sum(PCL(copies=1, peer="frozen")(Views(views, views)).values()).backward()
    assert (views.grad.abs().sum((1, 2)) > 0).tolist() == [True] * 6 + [False] * 6


def test_the_triplet_is_of_the_encoder_s_vectors_and_the_contrast_of_the_head_s():
    encoded, projected = random(5, 4, 6), random(5, 4, 6, seed=1)
    found = ArcCSE(triplet_weight=0.3, triplet_margin=0.2)(Views(encoded, projected))
    hinges = []
    for x, less, more in zip(*encoded[2:], strict=True):
        near, far = (torch.cosine_similarity(x, y, dim=0).item() for y in (less, more))
        hinges.append(max(0.0, 0.2 + far - near))
    assert min(hinges) == 0.0 < max(hinges)
    assert found["triplet"].item() == pytest.approx(0.3 * sum(hinges) / 4)
    alone = ArcCSE(triplet_weight=0.0)
    assert found["arc_con"].item() == pytest.approx(loss(alone, *projected[:2]))


def test_the_penalty_of_the_covariance_is_the_encoder_s():
    encoded, projected = random(2, 9, 4), random(2, 9, 4, seed=1)
    terms = CovarianceIdentity()(Views(encoded, projected))
    assert terms["info_nce"].item() == pytest.approx(info_nce(*projected, 0.05).item())
    mean = sum(identity_distance(view).item() for view in encoded) / 2
    assert terms["covariance"].item() == pytest.approx(0.01 * mean)
