"""RankCSE and GPL's margins against loops, and against what others' code gives."""

from __future__ import annotations

import math

import pytest
import torch
from objective_views import random
from torch.nn.functional import cosine_similarity

from isospace.losses import list_mle, list_net, margin_mse
from isospace.objectives.rankcse import RankCSE
from isospace.views import Views

ROWS, COLUMNS = torch.arange(4.0).double()[:, None], torch.arange(4.0).double()
STUDENT = 10 * torch.sin(3 * ROWS + 2 * COLUMNS + 1)
TEACHER = 10 * torch.cos(2 * ROWS - 5 * COLUMNS)
"""Made by a formula, so that they can be given to any code."""


def see(z1, z2, teacher=None, candidates=None):
    both = torch.stack([z1, z2])
    return Views(both, both, teacher=teacher, candidates=candidates)


def softmax(values):
    powers = [math.exp(value) for value in values]
    return [power / sum(powers) for power in powers]


def cosines(z1, z2, candidates=()):
    return [
        [float(cosine_similarity(a, b, dim=0)) for b in (*z2, *(own[i] for own in candidates))]
        for i, a in enumerate(z1)
    ]


def test_every_term_by_loops():
    z1, z2, teacher = random(5, 4), random(5, 4, seed=1), random(5, 7, seed=2)
    candidates = random(2, 5, 4, seed=3)
    objective = RankCSE(
        temperature=0.5, rank_temperature=0.4, teacher_temperature=0.3, contrast_weight=0.7,
        consistency_weight=0.6, distillation_weight=0.2,
    )  # fmt: skip
    found = objective(see(z1, z2, teacher, candidates))
    contrast, consistency, distillation = 0.0, 0.0, 0.0
    lists = cosines(z1, z2, candidates)
    for i, row in enumerate(lists):
        contrast -= math.log(softmax([s / 0.5 for s in row])[i])
        p = softmax([s / 0.5 for s in row[:5]])
        q = softmax([lists[j][i] / 0.5 for j in range(5)])
        for a, b in zip(p, q, strict=True):
            middle = (a + b) / 2
            consistency += (a * math.log(a / middle) + b * math.log(b / middle)) / 2
        wanted = softmax([t / 0.3 for t in teacher[i].tolist()])
        made = softmax([s / 0.4 for s in row])
        distillation -= sum(w * math.log(m) for w, m in zip(wanted, made, strict=True))
    assert found["info_nce"].item() == pytest.approx(0.7 * contrast / 5)
    assert found["consistency"].item() == pytest.approx(0.6 * consistency / 5)
    assert found["distillation"].item() == pytest.approx(0.2 * distillation / 5)


def test_lists_are_scored_as_by_a_community_s_code():
    """Of `ListNet` and `ListMLE` in github.com/perceptiveshawty/RankCSE, commit 17c5226, float64.

    The former leaves the diagonal out, the latter adds 1e-7 under the logarithm.
    """
    own = torch.eye(4, dtype=torch.bool)
    without_own = list_net(STUDENT, TEACHER.masked_fill(own, torch.nan))
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
