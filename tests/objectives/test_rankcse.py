"""RankCSE and GPL's margins: the terms, and what others' code gives."""

import pytest
import torch
from objective_views import cosine, random
from torch.nn.functional import cross_entropy

from isospace.losses import list_mle, list_net, margin_mse, ranking_divergence
from isospace.objectives.rankcse import RankCSE
from isospace.views import Views

ROWS, COLUMNS = torch.arange(4.0).double()[:, None], torch.arange(4.0).double()
STUDENT = 10 * torch.sin(3 * ROWS + 2 * COLUMNS + 1)
TEACHER = 10 * torch.cos(2 * ROWS - 5 * COLUMNS)
"""Made by a formula, so that they can be given to any code."""


def test_every_term_with_its_weight_and_temperature():
    z1, z2, teacher = random(5, 4), random(5, 4, seed=1), random(5, 7, seed=2)
    candidates = random(2, 5, 4, seed=3)
    objective = RankCSE(
        temperature=0.5, rank_temperature=0.4, teacher_temperature=0.3, contrast_weight=0.7,
        consistency_weight=0.6, distillation_weight=0.2,
    )  # fmt: skip
    both = torch.stack([z1, z2])
    found = objective(Views(both, both, teacher=teacher, candidates=candidates))
    rows = [[*z2, *(own[i] for own in candidates)] for i in range(5)]  # the list of each text
    cosines = torch.tensor([[cosine(a, b) for b in row] for a, row in zip(z1, rows, strict=True)])
    contrast = cross_entropy(cosines / 0.5, torch.arange(5))
    batch = cosines[:, :5] / 0.5
    assert found["info_nce"].item() == pytest.approx(0.7 * contrast.item(), rel=1e-5)
    consistency = 0.6 * ranking_divergence(batch, batch.T).mean().item()
    assert found["consistency"].item() == pytest.approx(consistency, rel=1e-5)
    distillation = 0.2 * list_net(cosines / 0.4, teacher.float() / 0.3).item()
    assert found["distillation"].item() == pytest.approx(distillation, rel=1e-5)


def test_lists_are_scored_as_by_a_community_s_code():
    """Of `ListNet` and `ListMLE` in github.com/perceptiveshawty/RankCSE, commit 17c5226, float64.

    The former leaves the diagonal out, the latter adds 1e-7 under the logarithm.
    """
    without_own = list_net(STUDENT, TEACHER.masked_fill(torch.eye(4, dtype=torch.bool), torch.nan))
    assert without_own.item() == pytest.approx(9.614203462441107, rel=1e-12)
    assert list_mle(STUDENT / 10, TEACHER).item() == pytest.approx(3.6267505907684985, rel=1e-6)


def test_margins_are_scored_as_by_gpl():
    """Of `MarginDistillationLoss` in github.com/UKPLab/gpl, commit 322edf7, float64.

    Its inner products, one negative for a query, and the margins 1, -0.5, 0.25 and 2 as labels.
    """
    query, positive = torch.sin(ROWS + COLUMNS), torch.cos(ROWS - 2 * COLUMNS)
    negative = torch.sin(2 * ROWS + 3 * COLUMNS)
    student = torch.cat([query @ positive.T, (query * negative).sum(1, keepdim=True)], dim=1)
    teacher = torch.full_like(student, torch.nan)
    teacher.diagonal()[:] = torch.tensor([1.0, -0.5, 0.25, 2.0])
    teacher[:, 4] = 0.0
    assert margin_mse(student, teacher).item() == pytest.approx(2.9640552181717927, rel=1e-12)
