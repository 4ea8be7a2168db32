"""Published settings, one row each: what to train, and the number it aims at.

One file per paper holds the rows, `base` what they have in common, `table` all of them.
"""

from __future__ import annotations

from isospace.recipes.base import STS_COLUMNS, TRANSFER_COLUMNS, Recipe
from isospace.recipes.table import RECIPES, find

__all__ = [
    "RECIPES",
    "STS_COLUMNS",
    "TRANSFER_COLUMNS",
    "Recipe",
    "find",
]
