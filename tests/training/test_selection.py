from __future__ import annotations

import math

import pytest

from isospace.training.selection import select_checkpoint


def evaluation(step, loss, rank=100.0, overlap=0.8, **more):
    return {
        "step": step,
        "pairs_mrr": 1 / loss,
        "effective_rank": rank,
        "neighbour_overlap": overlap,
        **more,
    }


START = evaluation(0, 2.0, overlap=1.0)


@pytest.mark.parametrize(
    ("evaluations", "step"),
    [
        ([START, evaluation(1, 1.5), evaluation(2, 1.7)], 1),
        ([START, evaluation(1, 2.5), evaluation(2, 2.1)], 0),  # nothing beats the base model
        ([START, evaluation(1, 0.5, rank=49.0), evaluation(2, 1.9)], 2),  # collapsed rank
        ([START, evaluation(1, 0.5, overlap=0.05), evaluation(2, 1.9)], 2),  # neighbours lost
        ([START, evaluation(1, math.nan), evaluation(2, 3.0)], 0),
        ([START, evaluation(1, 1.0, rank=math.nan)], 0),
        ([START, evaluation(1, 2.0)], 0),  # a tie keeps the base model
    ],
)
def test_label_free(evaluations, step):
    assert select_checkpoint(evaluations, "label-free", True).step == step


@pytest.mark.parametrize(
    ("evaluations", "step", "reason"),
    [
        (
            [START, evaluation(1, 1.5), evaluation(2, 9.0)],
            2,
            "the last checkpoint (step 2), because the corpus",
        ),
        (
            [START, evaluation(1, 1.5), evaluation(2, 1.0, rank=49.0)],
            1,
            "the last checkpoint (step 1), because the corpus",
        ),
        ([START, evaluation(1, 1.0, overlap=0.05)], 0, "every checkpoint has collapsed, "),
    ],
)
def test_without_natural_pairs_it_is_the_last_that_has_not_collapsed(evaluations, step, reason):
    choice = select_checkpoint(evaluations, "label-free", False)
    assert (choice.step, choice.criterion) == (step, "step")
    assert choice.reason.startswith(reason)


def test_labels_and_last():
    evaluations = [
        evaluation(0, 2.0, labels_spearman=0.8, overlap=1.0),
        evaluation(1, 1.0, labels_spearman=0.7),
        evaluation(2, 3.0, labels_spearman=0.9),
        evaluation(3, 3.0, labels_spearman=0.85),
    ]
    assert select_checkpoint(evaluations, "labels", False).step == 2
    assert select_checkpoint(evaluations, "last", True).step == 3
    assert select_checkpoint(evaluations[:2], "labels", True).step == 0


def test_a_start_that_does_not_compete_is_kept_where_all_else_has_collapsed():
    def chosen(*evaluations):
        return select_checkpoint([START, *evaluations], "label-free", True, base_competes=False)

    assert chosen(evaluation(5, 2.1), evaluation(9, 2.5)).step == 5
    assert chosen(evaluation(5, 2.1, rank=10.0), evaluation(9, 2.5)).step == 9
    kept = chosen(evaluation(9, 2.5, rank=10.0))
    none = "every checkpoint has collapsed, or none was reached"
    assert (kept.step, kept.reason) == (0, f"{none}; collapsed at steps 9")
    assert chosen().reason == none
