"""Every loss equals a plain loop over its formula, in float64 and float32, and keeps its promises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from objective_views import cosine, random
from torch import Tensor

from isospace import losses

A, B, C = (random(6, 5, seed=seed) for seed in range(3))
N, D, TAU = 6, 5, 0.3
COSINES = [[cosine(A[i], B[j]) for j in range(N)] for i in range(N)]


def log_softmax(row: list[float], place: int) -> float:
    return row[place] - math.log(sum(map(math.exp, row)))


def softmax(row: list[float]) -> list[float]:
    return [math.exp(x) / sum(map(math.exp, row)) for x in row]


def mean(values: Any) -> float:
    values = list(values)
    return sum(values) / len(values)


def columns(x: Tensor, ddof: int, eps: float = 0.0) -> list[Tensor]:
    return [(c - c.mean()) / ((c - c.mean()).square().sum() / (N - ddof) + eps).sqrt() for c in x.T]


def info_nce() -> float:
    rows = [[c / TAU for c in COSINES[i]] + [cosine(A[i], n) / TAU for n in C] for i in range(N)]
    return -mean(log_softmax(rows[i], i) for i in range(N))


def nt_xent() -> float:
    rows, total = [*A, *B], 0.0
    for i in range(2 * N):
        others = [j for j in range(2 * N) if j != i]
        row = [cosine(rows[i], rows[j]) / TAU for j in others]
        total -= log_softmax(row, others.index((i + N) % (2 * N)))
    return total / (2 * N)


NEAR = torch.tensor([[(j - i) % N in (1, 3) for j in range(N)] for i in range(N)])
UNIT_A, UNIT_B = (x / x.norm(dim=1, keepdim=True) for x in (A, B))


def neighbour_nt_xent() -> float:
    values = []
    for i in range(N):
        near = [j for j in range(N) if NEAR[i, j]]
        for own, other in ((UNIT_A, UNIT_B), (UNIT_B, UNIT_A)):
            row = [own[i] @ other[i], *(own[i] @ v[j] for v in (own, other) for j in near)]
            values.append(-log_softmax([float(x) / TAU for x in row], 0))
    return mean(values)


def off_dropout(variant: str) -> float:
    values = []
    for i in range(N):
        row = [cosine(C[i], C[j]) / TAU for j in range(N)]
        if variant == "paper":
            row = [x + math.log(0.7) for x in row]
        row[i] = COSINES[i][i] / TAU * (0.7 if variant == "released" else 1)
        values.append(-log_softmax(row, i))
    return mean(values)


def dimension_contrast(variant: str) -> float:
    released = variant == "released"
    a, b = (columns(x, 0, 1e-5) if released else columns(x, 1) for x in (A, B))
    scale = N if released else 1
    rows = [[float(c @ d) / scale / 2.0 for d in b] for c in a]
    values = [-log_softmax(row, c) for c, row in enumerate(rows)]
    return mean(values) if released else sum(values)


def multi_positive(form: str) -> float:
    total = 0.0
    for i in range(N):
        scores = [(cosine(A[i], p[i]) / TAU, [cosine(A[i], y) / TAU for y in p]) for p in (B, C)]
        sums = [sum(map(math.exp, row)) for _, row in scores]
        q = [math.exp(s) / z for (s, _), z in zip(scores, sums, strict=True)]
        total += {
            "l1": -2.0 * sum(map(math.log, q)),
            "l2": math.log(sum(2.0 / x for x in q)),
            "l2-plus": -math.log(sum(2.0 * x for x in q)),
            "l2-printed": -math.log(
                sum(2.0 * math.exp(-s) / z for (s, _), z in zip(scores, sums, strict=True))
            ),
        }[form]
    return total / N


def diagonals(matrix: list[list[float]]) -> list[float]:
    cells = [(j, k) for j in range(D) for k in range(D)]
    on = sum((1 - matrix[j][k]) ** 2 for j, k in cells if j == k)
    return [on, sum(matrix[j][k] ** 2 for j, k in cells if j != k)]


def barlow_twins() -> list[float]:
    return diagonals([[float(a @ b) / N for b in columns(B, 0, 0.1)] for a in columns(A, 0, 0.1)])


def printed_decorrelation() -> list[float]:
    def cell(a: Tensor, b: Tensor) -> float:
        return float(sum(a * b) / sum(a**2 * b**2).sqrt())

    on, off = diagonals([[cell(a, b) for b in B.T] for a in A.T])
    return [-on, off]


def covariance(x: Tensor, ddof: int) -> list[list[float]]:
    c = [column - column.mean() for column in x.T]
    return [[float(a @ b) / (N - ddof) for b in c] for a in c]


def variance_hinge() -> float:
    cov = covariance(A, 1)
    return mean(max(0.0, 1.1 - math.sqrt(cov[j][j] + 1e-4)) for j in range(D))


def shared_variance() -> float:
    cov = covariance(A, 1)
    return sum(cov[j][k] ** 2 for j in range(D) for k in range(D) if j != k) / D


def identity_distance() -> float:
    cov = covariance(A, 0)
    trace = sum(cov[j][j] for j in range(D))
    cells = ((D * cov[j][k] / trace - (j == k)) ** 2 for j in range(D) for k in range(D))
    return sum(cells) / D


def angular_margin(far: str) -> list[float]:
    found = []
    for i in range(N):
        angle, u = math.acos(COSINES[i][i]), 1.2
        keeps = {"paper": True, "easy": angle < math.pi / 2}.get(far, angle + u < math.pi)
        other = math.cos(angle) - (u * math.sin(u) if far == "penalty" else 0)
        found.append(math.cos(angle + u) if keeps else other)
    return found


def masking_triplet() -> float:
    return mean(max(0.0, 0.1 + cosine(A[i], C[i]) - cosine(A[i], B[i])) for i in range(N))


TEACHER = random(N, D, seed=5)
TEACHER[0, 1:] = TEACHER[1, 2] = TEACHER[3, 4] = torch.nan
LISTS = [[j for j in range(D) if not TEACHER[i, j].isnan()] for i in range(N)]
RANKED = [i for i in range(N) if len(LISTS[i]) > 1]


def list_net() -> float:
    values = []
    for i in RANKED:
        p = softmax([float(TEACHER[i, j]) for j in LISTS[i]])
        row = [float(A[i, j]) for j in LISTS[i]]
        values.append(-sum(p[k] * log_softmax(row, k) for k in range(len(row))))
    return mean(values)


def list_mle() -> float:
    values = []
    for i in RANKED:
        order = sorted(LISTS[i], key=lambda j: -float(TEACHER[i, j]))
        row = [float(A[i, j]) for j in order]
        values.append(-sum(log_softmax(row[k:], 0) for k in range(len(row))))
    return mean(values)


def margin_mse() -> float:
    s, t = A[:, :D], TEACHER
    pairs = [(i, j) for i in range(D) for j in range(D) if i != j and not t[i, j].isnan()]
    pairs = [(i, j) for i, j in pairs if not t[i, i].isnan()]
    return mean(float(s[i, i] - s[i, j] - t[i, i] + t[i, j]) ** 2 for i, j in pairs)


def ranking_divergence() -> list[float]:
    found = []
    for i in range(N):
        p, q = softmax(A[i].tolist()), softmax(B[i].tolist())
        kl = [
            math.log(2 * x / (x + y)) * x + math.log(2 * y / (x + y)) * y
            for x, y in zip(p, q, strict=True)
        ]
        found.append(sum(kl) / 2)
    return found


WEIGHTS = ((A @ B.T) > 0).double().fill_diagonal_(1)
WIDE = torch.cat([A @ B.T, C[:, :2]], dim=1)


def weighted_cross_entropy(released: bool) -> float:
    values = []
    for i, row in enumerate(WIDE.tolist()):
        w = [*WEIGHTS[i].tolist(), 1.0, 1.0]
        if released:
            p = softmax([x * y for x, y in zip(row, w, strict=True)])
            values += [-math.log(x if j == i else 1 - x) for j, x in enumerate(p)]
        else:
            whole = sum(y * math.exp(x) for x, y in zip(row, w, strict=True))
            values.append(math.log(whole) - row[i])
    return mean(values)


def mixed_cosines(variant: str) -> list[list[float]]:
    def mixes(x: Tensor) -> list[Tensor]:
        return [0.2 * x[i] + 0.8 * x[(i + 1) % N] for i in range(N)]

    if variant == "paper":
        return [[cosine(A[i], mixes(UNIT_B)[i])] for i in range(N)]
    excluded = 0.0 if variant == "released" else -math.inf
    second = [
        [excluded if j == (i - 1) % N else cosine(A[i], m) for j, m in enumerate(mixes(B))]
        for i in range(N)
    ]
    first = [
        [excluded if j == (i + 1) % N else cosine(m, B[j]) for j in range(N)]
        for i, m in enumerate(mixes(A))
    ]
    return [[*x, *y] for x, y in zip(second, first, strict=True)]


def group_logits() -> list[list[float]]:
    return [
        [cosine(A[i], x[i]) / TAU for x in (B, C)]
        + [cosine(A[i], A[j]) / TAU for j in range(N) if j != i]
        for i in range(N)
    ]


def group_cross_entropy(released: bool) -> float:
    values = []
    for row in A.tolist():
        for j, p in enumerate(softmax(row)):
            p = 1 / (1 + math.exp(-p)) if released else p
            values.append(-math.log(p if j < 2 else 1 - p))
    return mean(values)


def softmax_divergence() -> float:
    rows = [
        zip(softmax(a), softmax(b), strict=True)
        for a, b in zip(A.tolist(), B.tolist(), strict=True)
    ]
    return mean(q * math.log(q / p) for row in rows for p, q in row)


LABELS = torch.tensor([1, 0, 0, 1, 0, 1])


def contrastive_tension() -> list[float]:
    products = [float(A[i] @ B[i]) * (1 if LABELS[i] else -1) for i in range(N)]
    return [math.log(1 + math.exp(-x)) for x in products]


LOCAL = random(3, 4, D, seed=6)
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])


def token_information() -> list[float]:
    own, others = [], []
    for i in range(3):
        for t in range(4):
            for j in range(3):
                score = float(LOCAL[i, t] @ A[j])
                if MASK[i, t] and i == j:
                    own.append(math.log(2) - math.log(1 + math.exp(-score)))
                elif MASK[i, t]:
                    others.append(math.log(1 + math.exp(score)) - math.log(2))
    return [mean(own), mean(others)]


IDS, SHOWN = torch.tensor([[1, 7, 2], [1, 2, 0]]), torch.tensor([[1, 8, 2], [1, 5, 0]])
IDS_MASK, GUESSED = torch.tensor([[1, 1, 1], [1, 1, 0]]), random(2, 3, 2, seed=7)


def replacement_detection(positions: str) -> float:
    values = []
    for i in range(2):
        for t in range(3):
            if IDS_MASK[i, t] or positions == "all":
                label = int(SHOWN[i, t] != IDS[i, t]) * int(IDS_MASK[i, t])
                values.append(-log_softmax(GUESSED[i, t].tolist(), label))
    return mean(values)


def cells() -> list[list[float]]:
    rows = [softmax(row) for row in A.tolist()]
    return [[-math.log(p if j == 1 else 1 - p) for j, p in enumerate(row)] for row in rows]


SECOND = torch.eye(D).double()[1].expand(N, D)
LOOPS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]] = {
    "info_nce": (losses.info_nce, (A, B, TAU, C), {}, info_nce),
    "nt_xent": (losses.nt_xent, (A, B, TAU), {}, nt_xent),
    "neighbours": (losses.neighbour_nt_xent, (UNIT_A, UNIT_B, NEAR, TAU), {}, neighbour_nt_xent),
    "cells": (losses.cell_cross_entropy, (A, SECOND), {}, cells),
    "barlow": (losses.barlow_twins, (A, B), {"eps": 0.1}, barlow_twins),
    "scd as printed": (
        losses.decorrelation, (A, B), {"variant": "printed"}, printed_decorrelation
    ),
    "scd as released": (losses.decorrelation, (A, B), {"eps": 0.1}, barlow_twins),
    "self_contrast": (
        losses.self_contrast, (A, B, TAU), {}, lambda: mean(COSINES[i][i] / TAU for i in range(N))
    ),
    "variance": (losses.variance_hinge, (A,), {"target": 1.1}, variance_hinge),
    "shared": (losses.shared_variance, (A,), {}, shared_variance),
    "identity": (losses.identity_distance, (A,), {}, identity_distance),
    "triplet": (losses.masking_triplet, (A, B, C, 0.1), {}, masking_triplet),
    "list_net": (losses.list_net, (A, TEACHER), {}, list_net),
    "list_mle": (losses.list_mle, (A, TEACHER), {}, list_mle),
    "margin_mse": (losses.margin_mse, (A[:D], TEACHER[:D]), {}, margin_mse),
    "rankings": (losses.ranking_divergence, (A, B), {}, ranking_divergence),
    "group logits": (
        losses.group_logits, (A, torch.stack([A, B, C]), TAU), {}, group_logits
    ),
    "softmax_divergence": (losses.softmax_divergence, (A, B), {}, softmax_divergence),
    "tension": (losses.contrastive_tension, (A, B, LABELS), {}, contrastive_tension),
    "information": (losses.token_information, (LOCAL, A[:3], MASK), {}, token_information),
}  # fmt: skip
for _variant in ("released", "paper"):
    _options = {"temperature": TAU, "m": 0.7, "variant": _variant}
    LOOPS[f"off_dropout {_variant}"] = (
        losses.off_dropout, (A, B, C), _options, lambda v=_variant: off_dropout(v)
    )  # fmt: skip
    _options = {"temperature": 2.0, "variant": _variant}
    LOOPS[f"dimensions {_variant}"] = (
        losses.dimension_contrast, (A, B), _options, lambda v=_variant: dimension_contrast(v)
    )  # fmt: skip
for _form in ("l1", "l2", "l2-plus", "l2-printed"):
    LOOPS[f"positives {_form}"] = (
        losses.multi_positive, (torch.stack([A, B, C]), TAU), {"form": _form, "weight": 2.0},
        lambda f=_form: multi_positive(f),
    )  # fmt: skip
for _far in ("paper", "easy", "cut", "penalty"):
    LOOPS[f"margin {_far}"] = (
        losses.angular_margin, (A, B, 1.2, _far), {}, lambda f=_far: angular_margin(f)
    )  # fmt: skip
for _mixed in ("masked", "released", "paper"):
    LOOPS[f"mixes {_mixed}"] = (
        losses.mixed_cosines, (A, B), {"variant": _mixed}, lambda v=_mixed: mixed_cosines(v)
    )  # fmt: skip
for _released in (False, True):
    LOOPS[f"weighted {_released}"] = (
        losses.weighted_cross_entropy, (WIDE, WEIGHTS), {"released": _released},
        lambda r=_released: weighted_cross_entropy(r),
    )  # fmt: skip
    LOOPS[f"group {_released}"] = (
        losses.group_cross_entropy, (A, 2), {"released": _released},
        lambda r=_released: group_cross_entropy(r),
    )  # fmt: skip
for _positions in ("tokens", "all"):
    LOOPS[f"detection {_positions}"] = (
        losses.replacement_detection, (GUESSED, SHOWN, IDS, IDS_MASK), {"positions": _positions},
        lambda p=_positions: replacement_detection(p),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", LOOPS)
def test_a_loss_is_its_formula(name: str, dtype: torch.dtype) -> None:
    function, arguments, options, loop = LOOPS[name]
    given = [
        x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for x in arguments
    ]
    found = function(*given, **options)
    found = torch.stack(found) if isinstance(found, tuple) else found
    assert found.dtype == dtype
    rel = 1e-10 if dtype == torch.float64 else 1e-4
    expected = torch.tensor(loop(), dtype=torch.float64)
    torch.testing.assert_close(found.double(), expected, rtol=rel, atol=rel)


def test_edge_cases_stay_finite() -> None:
    z = random(5, 3).float()
    assert losses.info_nce(z, -z, 1e-4).isfinite()
    for label in (0.0, 1.0):  # a probability that rounds to 1
        logits = torch.tensor([[90.0, 0.0]], requires_grad=True)
        cell = losses.cell_cross_entropy(logits, torch.tensor([[label, 1 - label]]))
        assert cell.isfinite().all()
        assert torch.autograd.grad(cell.sum(), logits)[0].isfinite().all()
    nothing = torch.full((4, 4), torch.nan)
    for distill in (losses.list_net, losses.list_mle, losses.margin_mse):
        assert distill(random(4, 4), nothing.double()) == 0
    equal = A.clone().requires_grad_()
    margin = losses.angular_margin(equal, A, 0.2)
    assert torch.autograd.grad(margin.sum(), equal)[0].isfinite().all()


def test_clean_negatives_leave_positives_and_further_columns() -> None:
    found = losses.with_clean_negatives(WIDE, A @ C.T)
    expected = torch.cat([(A @ C.T).clone(), WIDE[:, N:]], dim=1)
    expected.diagonal().copy_(WIDE.diagonal())
    assert torch.equal(found, expected)
    assert torch.equal(losses.with_clean_negatives(WIDE[None], A @ C.T)[0], expected)


def test_false_negatives_weigh_nothing_and_oneself_one() -> None:
    weights = losses.negative_weights(A, B, 0.2)
    for i in range(N):
        for j in range(N):
            assert weights[i, j] == float(i == j or COSINES[i][j] <= 0.2)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_noise_moves_uphill_by_steps_of_one_length(steps: int) -> None:
    hard = losses.hardened_noise(C, A, B, temperature=TAU, steps=steps, step_size=0.1)
    assert not hard.requires_grad
    moved = (hard - C).norm(dim=1)
    assert (moved <= 0.1 * steps + 1e-9).all()
    if steps == 1:
        torch.testing.assert_close(moved, torch.full((N,), 0.1).double())
    before, after = (losses.info_nce(A, B, TAU, x) for x in (C, hard))
    assert float(after) > float(before) or not steps


@pytest.mark.parametrize("with_positive", [False, True])
def test_pairs_are_a_positive_and_its_negatives(with_positive: bool) -> None:
    negatives = torch.tensor([[[5, 6], [7, 8]], [[9, 10], [11, 12]]])
    first, second, labels = losses.pair_layout(
        torch.tensor([0, 1]), negatives, with_positive=with_positive
    )
    assert labels.tolist() == [1, 0, 0, 1, 0, 0]
    assert first.tolist() == ([0, 0, 0, 1, 1, 1] if with_positive else [0, 5, 6, 1, 9, 10])
    assert second.tolist() == ([0, 5, 6, 1, 9, 10] if with_positive else [0, 7, 8, 1, 11, 12])


@pytest.mark.parametrize("everywhere", [False, True])
def test_words_are_replaced_at_masks_or_everywhere_but_the_first(everywhere: bool) -> None:
    masked, guesses = torch.tensor([[1, 3, 2], [1, 2, 0]]), torch.full((2, 3), 9)
    found = losses.replace_words(IDS, masked, guesses, IDS_MASK, everywhere=everywhere)
    expected = [[1, 9, 9], [1, 9, 0]] if everywhere else [[1, 9, 2], [1, 2, 0]]
    assert found.tolist() == expected


@pytest.mark.parametrize("layout", ["view", "sentence"])
def test_shuffled_groups_are_whitened_under_permutations_that_are_undone(layout: str) -> None:
    """A loop over rows and groups, with numpy's eigenvectors in the place of ours."""
    views = random(2, 12, 6)
    found = losses.shuffled_group_whitening(
        views, 2, torch.Generator().manual_seed(3), layout=layout, eps=0.1  # type: ignore[arg-type]
    )  # fmt: skip
    generator = torch.Generator().manual_seed(3)
    for part in range(2):
        order = torch.randperm(6, generator=generator)
        cells = [(part, i) for i in range(12)]
        if layout == "sentence":
            cells = [(v, i) for i in range(6 * part, 6 * part + 6) for v in (0, 1)]
        x = torch.stack([views[cell] for cell in cells])
        out = torch.stack([found[cell] for cell in cells])
        for group in order.view(2, 3):
            centred = x[:, group] - x[:, group].mean(0)
            values, axes = torch.linalg.eigh(centred.T @ centred / 12 + 0.1 * torch.eye(3))
            root = axes @ torch.diag(values**-0.5) @ axes.T
            torch.testing.assert_close(out[:, group], centred @ root)
