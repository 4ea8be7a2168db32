"""Published settings, one row each: what to train, and the number it aims at.

One file per paper holds the rows, `base` what they have in common; the table here has all of them.
"""

from __future__ import annotations

from isospace.config import TrainConfig
from isospace.errors import UserError, no_such
from isospace.objectives import SimCSE
from isospace.recipes.arccse import ARCCSE
from isospace.recipes.base import HERE, STS_COLUMNS, TRANSFER_COLUMNS, Recipe
from isospace.recipes.consert import CONSERT
from isospace.recipes.ct import CT_ROWS
from isospace.recipes.dclr import DCLR_ROWS
from isospace.recipes.declutr import DECLUTR
from isospace.recipes.diffcse import DIFFCSE
from isospace.recipes.esimcse import ESIMCSE
from isospace.recipes.gs_infonce import GS_INFONCE
from isospace.recipes.is_bert import IS_BERT
from isospace.recipes.mixcse import MIXCSE
from isospace.recipes.mocose import MOCOSE
from isospace.recipes.pcl import PCL_ROWS
from isospace.recipes.promptbert import PROMPTBERT
from isospace.recipes.sbert import SBERT
from isospace.recipes.scd import SCD_ROWS
from isospace.recipes.simcse import SIMCSE
from isospace.recipes.simcsepp import SIMCSEPP
from isospace.recipes.vascl import VASCL
from isospace.recipes.whitenedcse import WHITENEDCSE

__all__ = [
    "HERE",
    "RECIPES",
    "STS_COLUMNS",
    "TRANSFER_COLUMNS",
    "Recipe",
    "find",
]

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
    **IS_BERT,
    **CT_ROWS,
    **CONSERT,
    **DECLUTR,
    **DCLR_ROWS,
    **ARCCSE,
    **MIXCSE,
    **MOCOSE,
    **DIFFCSE,
    **ESIMCSE,
    **GS_INFONCE,
    **VASCL,
    **PCL_ROWS,
    **PROMPTBERT,
    **SBERT,
}


def find(name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        UserError: there is none; the message has the closest names.
    """
    if name in RECIPES:
        return RECIPES[name]
    raise UserError(no_such("recipe", name, RECIPES))
