from __future__ import annotations

import math

import pytest

from isospace.training.results import select_checkpoint


def evaluation(step, mrr, rank=100.0, overlap=0.8, labels=0.0):
    return {
        "step": step,
        "pairs_mrr": mrr,
        "effective_rank": rank,
        "neighbour_overlap": overlap,
        "labels_spearman": labels,
    }


BASE = evaluation(0, 0.5, overlap=1.0, labels=0.8)


@pytest.mark.parametrize(
    ("evaluations", "by_pairs", "last"),
    [
        ([evaluation(1, 0.7), evaluation(2, 0.6)], 1, 2),
        ([evaluation(1, 0.4), evaluation(2, 0.45)], 0, 2),  # nothing beats the base model
        ([evaluation(1, 0.5)], 0, 1),  # a tie keeps the base model
        ([evaluation(1, 0.9, rank=49.0), evaluation(2, 0.6)], 2, 2),  # collapsed rank
        ([evaluation(1, 0.6), evaluation(2, 0.9, overlap=0.05)], 1, 1),  # neighbours lost
        ([evaluation(1, math.nan), evaluation(2, 0.3)], 0, 2),
        ([evaluation(1, 0.9, rank=math.nan)], 0, 0),
    ],
)
def test_label_free_with_natural_pairs_and_without(evaluations, by_pairs, last):
    found = [select_checkpoint([BASE, *evaluations], "label-free", by) for by in (True, False)]
    assert [choice.step for choice in found] == [by_pairs, last]
    assert [choice.criterion for choice in found] == ["pairs_mrr", "step"]


def test_labels_and_last():
    later = [evaluation(n, 0.9 / n, labels=x) for n, x in ((1, 0.7), (2, 0.9), (3, 0.85))]
    assert select_checkpoint([BASE, *later], "labels", False).step == 2
    assert select_checkpoint([BASE, *later], "last", True).step == 3
    assert select_checkpoint([BASE, later[0]], "labels", True).step == 0


def test_a_base_model_that_does_not_compete_is_kept_where_all_else_has_collapsed():
    def chosen(*evaluations):
        return select_checkpoint([BASE, *evaluations], "label-free", True, base_competes=False)

    assert chosen(evaluation(5, 0.45), evaluation(9, 0.4)).step == 5
    assert chosen(evaluation(5, 0.45, rank=10.0), evaluation(9, 0.4)).step == 9
    kept = chosen(evaluation(9, 0.4, rank=10.0))
    assert (kept.step, kept.collapsed) == (0, (9,))
    assert chosen().step == 0
