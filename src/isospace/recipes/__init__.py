"""Recipes: published settings, each with the scores that it should reach.

`whitenedcse`, `scd` and `simcsepp` hold the recipes of the three core papers, and `simcse` those of
their baseline. `baselines` holds those of other papers, and `base` the common parts.
"""

from __future__ import annotations

from isospace.config import TrainConfig
from isospace.errors import UserError, no_such
from isospace.objectives import SimCSE
from isospace.recipes.base import (
    STS_COLUMNS as STS_COLUMNS,
    TRANSFER_COLUMNS as TRANSFER_COLUMNS,
    Recipe as Recipe,
)
from isospace.recipes.baselines import BASELINES
from isospace.recipes.scd import SCD_ROWS
from isospace.recipes.simcse import SIMCSE
from isospace.recipes.simcsepp import SIMCSEPP
from isospace.recipes.whitenedcse import WHITENEDCSE

RECIPES: dict[str, Recipe] = {
    "dropout": Recipe(
        TrainConfig(),
        "ours",
        note="Adapts a finished sentence encoder to a domain. Chosen on the docstrings' dev pairs; "
        "the default.",
        corpus="yours",
    ),
    "pairs": Recipe(
        TrainConfig(
            objective=SimCSE(head="none", temperature=0.05),
            views="pairs",
            max_length=64,
            budget=(3_200, "sentences"),
            learning_rate=5e-5,
        ),
        "ours",
        note="Adapts a finished sentence encoder to documents that will be searched. Selected "
        "by validation pairs of six corpora. `adapt` trains with it, through whitening by pairs.",
        corpus="yours: documents",
    ),
    **SIMCSE,
    **WHITENEDCSE,
    **SCD_ROWS,
    **SIMCSEPP,
    **BASELINES,
}


def find(name: str) -> Recipe:
    """Return a recipe by its name.

    Raises:
        UserError: there is no such recipe; the message has the closest names.
    """
    if name in RECIPES:
        return RECIPES[name]
    raise UserError(no_such("recipe", name, RECIPES))
