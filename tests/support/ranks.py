"""Ranks of targets by cosine, and scores of items."""

import numpy as np

from isospace.evaluation.retrieval import Targets
from isospace.operators.nearest import product_blocks, unit_rows
from isospace.statistics.gains import mean_scores


def rank_targets(queries, targets, own, left_out=None):
    """Rank `targets[own[i]]` for `queries[i]` among the targets; no two queries share one."""
    bearers = np.full(len(targets), -1)
    bearers[own] = np.arange(len(own))
    names, nowhere = tuple(map(str, range(len(targets)))), np.full(len(own), -1)
    second_half = np.arange(len(own)) >= len(own) / 2
    among = Targets(names, own, left_out, nowhere, second_half, bearers, "")
    return among.rank(product_blocks(unit_rows(queries), unit_rows(targets)))


def item_scores(values, groups=None):
    """Scores (seed, item) or (item,); by default every item is a group of its own."""
    values = np.atleast_2d(values)
    return mean_scores(values, np.arange(values.shape[1]) if groups is None else groups)


def rank_by_a_loop(query, right, others):
    """Mean rank among ties, in exact integer-friendly arithmetic."""

    def cos(target):
        lengths = np.sqrt((query @ query) * (target @ target))
        return float(query @ target) / max(float(lengths), 1e-300)

    own = cos(right)
    better = sum(cos(other) > own + 1e-9 for other in others)
    tied = sum(abs(cos(other) - own) <= 1e-9 for other in others)
    return 1 + better + tied / 2
