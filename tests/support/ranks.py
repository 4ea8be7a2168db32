"""Ranks of targets by cosine."""

from __future__ import annotations

from isospace.evaluation.retrieval import rank_scores
from isospace.operators.nearest import product_blocks, unit_rows


def rank_targets(queries, targets, own):
    """Rank `targets[own[i]]` for `queries[i]` among the targets."""
    return rank_scores(product_blocks(unit_rows(queries), unit_rows(targets)), len(targets), own)
