"""A student's ranking of lists of texts: agreement of two rankings, distillation from a teacher.

Lists of fewer than two texts count nothing; where none is left, the loss is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:  # `isospace train --help` does without torch
    from torch import Tensor


def ranking_divergence(first: Tensor, second: Tensor) -> Tensor:
    r"""Return the Jensen-Shannon divergence of the rows' softmax, (list,).

    $$\tfrac12 \mathrm{KL}(p \| m) + \tfrac12 \mathrm{KL}(q \| m), \qquad m = (p + q) / 2$$

    Liu et al. 2023, "RankCSE".
    """
    p, q = first.log_softmax(dim=1), second.log_softmax(dim=1)
    middle = torch.logaddexp(p, q) - torch.log(torch.full_like(p, 2.0))
    return (p.exp() * (p - middle) + q.exp() * (q - middle)).sum(dim=1) / 2


def list_net(student: Tensor, teacher: Tensor) -> Tensor:
    r"""Return the cross-entropy of the student's softmax under the teacher's.

    $$-\frac1N \sum_i \sigma(T_i) \cdot \log \sigma(S_i)$$

    Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise Approach"; RankCSE.
    """
    student, teacher, listed = _lists(student, teacher)
    wanted = teacher.masked_fill(~listed, -torch.inf).softmax(dim=1)
    log_p = student.masked_fill(~listed, -torch.inf).log_softmax(dim=1).masked_fill(~listed, 0.0)
    return -_mean((wanted * log_p).sum(dim=1))


def list_mle(student: Tensor, teacher: Tensor) -> Tensor:
    r"""Return the negative log-likelihood of the teacher's order under the student.

    $$-\frac1N \sum_i \sum_k \log \frac{e^{S_{i\pi_k}}}{\sum_{l \ge k} e^{S_{i\pi_l}}}$$

    $\pi$ sorts $T_i$ downwards; of equal scores the first comes first (Plackett and Luce's model).
    Xia et al. 2008, "Listwise Approach to Learning to Rank"; RankCSE.
    """
    student, teacher, listed = _lists(student, teacher)
    order = teacher.masked_fill(~listed, -torch.inf).sort(dim=1, descending=True, stable=True)
    student, listed = student.gather(1, order.indices), listed.gather(1, order.indices)
    # Texts outside the list come last, and take no part in the sums from the end.
    lowest = torch.finfo(student.dtype).min / 4
    left = student.masked_fill(~listed, lowest).flip(1).logcumsumexp(dim=1).flip(1)
    return _mean((left - student).masked_fill(~listed, 0.0).sum(dim=1))


def margin_mse(student: Tensor, teacher: Tensor) -> Tensor:
    r"""Return the squared error of the margins between each list's own text and its others.

    $$\mathrm{mean}_{i, j \ne i} \big((S_{ii} - S_{ij}) - (T_{ii} - T_{ij})\big)^2$$

    The own texts are on the diagonal. Hofstätter et al. 2020, "Improving Efficient Neural Ranking
    Models with Cross-Architecture Knowledge Distillation"; Wang et al. 2022, "GPL".
    """
    margins, wanted = (x.diagonal().unsqueeze(1) - x for x in (student, teacher))
    known = ~wanted.isnan() & ~torch.eye(*wanted.shape, dtype=torch.bool, device=wanted.device)
    return _mean((margins - wanted)[known].square())


def _lists(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the lists that have two texts or more, and which texts are in them."""
    listed = ~teacher.isnan()
    ranked = listed.sum(dim=1) > 1
    return student[ranked], teacher[ranked], listed[ranked]


def _mean(losses: Tensor) -> Tensor:
    return losses.sum() / max(1, losses.numel())
