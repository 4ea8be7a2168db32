"""Losses that no golden file checks equal a plain loop over their formula; all stay finite."""

import math

import pytest
import torch
from objective_views import cosine, random

from isospace import losses

A, B, C = (random(6, 5, seed=seed) for seed in range(3))
N, D, TAU = 6, 5, 0.3


def log_softmax(row, place):
    return row[place] - math.log(sum(map(math.exp, row)))


def softmax(row):
    return [math.exp(x) / sum(map(math.exp, row)) for x in row]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def several_positives():
    total = 0.0
    for i in range(N):
        rows = [[cosine(A[i], y) / TAU for y in positive] for positive in (B, C)]
        total += math.log(sum(2.0 / softmax(row)[i] for row in rows))
    return total / N


def identity_distance(rows=N):
    centred = [column - column.mean() for column in A[:rows].T]
    cov = [[float(a @ b) / rows for b in centred] for a in centred]
    trace = sum(cov[j][j] for j in range(D))
    cells = ((D * cov[j][k] / trace - (j == k)) ** 2 for j in range(D) for k in range(D))
    return sum(cells) / D


TEACHER = random(N, D, seed=5)
TEACHER[0, 1:] = TEACHER[1, 2] = TEACHER[3, 4] = torch.nan
LISTS = [[j for j in range(D) if not TEACHER[i, j].isnan()] for i in range(N)]
RANKED = [i for i in range(N) if len(LISTS[i]) > 1]


def list_net():
    values = []
    for i in RANKED:
        p = softmax([float(TEACHER[i, j]) for j in LISTS[i]])
        row = [float(A[i, j]) for j in LISTS[i]]
        values.append(-sum(p[k] * log_softmax(row, k) for k in range(len(row))))
    return mean(values)


def list_mle():
    values = []
    for i in RANKED:
        order = sorted(LISTS[i], key=lambda j: -float(TEACHER[i, j]))
        row = [float(A[i, j]) for j in order]
        values.append(-sum(log_softmax(row[k:], 0) for k in range(len(row))))
    return mean(values)


def margin_mse():
    s, t = A[:, :D], TEACHER
    pairs = [(i, j) for i in range(D) for j in range(D) if i != j and not t[i, j].isnan()]
    pairs = [(i, j) for i, j in pairs if not t[i, i].isnan()]
    return mean(float(s[i, i] - s[i, j] - t[i, i] + t[i, j]) ** 2 for i, j in pairs)


def ranking_divergence():
    found = []
    for i in range(N):
        p, q = softmax(A[i].tolist()), softmax(B[i].tolist())
        means = [(x + y) / 2 for x, y in zip(p, q, strict=True)]
        found.append(sum(x * math.log(x / m) for x, m in zip(p + q, 2 * means, strict=True)) / 2)
    return found


LOOPS = {
    "several positives": (
        lambda *z: losses.multi_positive(torch.stack(z), TAU, form="l2", weight=2.0),
        several_positives,
    ),
    "identity": (lambda a, b, c: losses.identity_distance(a), identity_distance),
    "identity of fewer rows than dimensions": (
        lambda a, b, c: losses.identity_distance(a[:3]),
        lambda: identity_distance(3),
    ),
    "list_net": (lambda a, b, c: losses.list_net(a, TEACHER.to(a)), list_net),
    "list_mle": (lambda a, b, c: losses.list_mle(a, TEACHER.to(a)), list_mle),
    "margin_mse": (lambda a, b, c: losses.margin_mse(a[:D], TEACHER[:D].to(a)), margin_mse),
    "rankings": (lambda a, b, c: losses.ranking_divergence(a, b), ranking_divergence),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", LOOPS)
def test_a_loss_is_its_formula(name, dtype):
    function, loop = LOOPS[name]
    found = function(*(x.to(dtype) for x in (A, B, C)))
    assert found.dtype == dtype
    rel = 1e-10 if dtype == torch.float64 else 1e-4
    expected = torch.tensor(loop(), dtype=torch.float64)
    torch.testing.assert_close(found.double(), expected, rtol=rel, atol=rel)


def test_edge_cases_stay_finite():
    z = random(5, 3).float()
    assert losses.info_nce(z, -z, 1e-4).isfinite()
    for label in (0.0, 1.0):  # a probability that rounds to 1
        logits = torch.tensor([[90.0, 0.0]], requires_grad=True)
        cell = losses.cell_cross_entropy(logits, torch.tensor([[label, 1 - label]]))
        assert cell.isfinite().all()
        assert torch.autograd.grad(cell.sum(), logits)[0].isfinite().all()
    assert losses.identity_distance(torch.zeros(4, 3)) == 1
    nothing = torch.full((4, 4), torch.nan)
    for distill in (losses.list_net, losses.list_mle, losses.margin_mse):
        assert distill(random(4, 4), nothing.double()) == 0
    equal = A.clone().requires_grad_()
    margin = losses.angular_margin(equal, A, 0.2)
    assert torch.autograd.grad(margin.sum(), equal)[0].isfinite().all()
