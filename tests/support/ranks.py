"""Ranks of targets by cosine."""

from __future__ import annotations

import numpy as np

from isospace.evaluation.retrieval import Targets
from isospace.operators.nearest import product_blocks, unit_rows


def rank_targets(queries, targets, own, left_out=None):
    """Rank `targets[own[i]]` for `queries[i]` among the targets; no two queries share one."""
    bearers = np.full(len(targets), -1)
    bearers[own] = np.arange(len(own))
    names, nowhere = tuple(map(str, range(len(targets)))), np.full(len(own), -1)
    second_half = np.arange(len(own)) >= len(own) / 2
    among = Targets(names, own, left_out, nowhere, second_half, bearers, "")
    return among.rank(product_blocks(unit_rows(queries), unit_rows(targets)))
