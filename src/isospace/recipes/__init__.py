"""Recipes: published settings, each with the scores that it should reach.

The file `recipes.toml` has the rows of papers. Our own two recipes are below.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isospace.config import CorpusConfig, TrainConfig
from isospace.errors import UserError, no_such
from isospace.objectives import OBJECTIVES, SimCSE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STS_COLUMNS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg")
TRANSFER_COLUMNS = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC", "Avg")


@dataclass(frozen=True)
class Recipe:
    """Settings, the published scores that they should reach, and notes on reproducing them."""

    config: TrainConfig
    table: str
    """The paper, and its table or study; the recipe's name tells the row."""
    note: str
    corpus: str
    """Training text of the paper."""
    published: dict[str, float] = field(default_factory=dict)
    """Spearman x 100 by column of the STS table ("all", test sets), or the average alone."""
    published_transfer: dict[str, float] = field(default_factory=dict)
    """Accuracy in per cent by column of the transfer table."""
    published_dev: float | None = None
    """Spearman x 100 on STS-B dev."""
    reruns: dict[str, str] | None = None
    """Other runs with their scores, `words`, and the `source` that reports them, a URL."""


DEFAULT_RECIPE = "dropout"
_OURS = {
    DEFAULT_RECIPE: Recipe(
        TrainConfig(),
        "ours",
        "Adapts a finished sentence encoder to a domain. Chosen on the docstrings' dev pairs; "
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
        "Adapts a finished sentence encoder to documents that will be searched. Selected "
        "by validation pairs of six corpora. The command adapt trains with it, through whitening "
        "by pairs.",
        corpus="yours: documents",
    ),
}


def _of_papers() -> dict[str, Recipe]:
    """Read the rows of papers; a row has what the protocol and its study say, unless it differs."""
    studies = tomllib.loads(Path(__file__).with_name("recipes.toml").read_text(encoding="utf-8"))
    protocol, notes = studies.pop("protocol"), studies.pop("notes")
    recipes = {}
    for study in studies.values():
        for name, row in study.pop("rows").items():
            options = study.get("options", {}) | row.get("options", {})
            recipes[name] = _recipe(protocol | study | row | {"options": options}, notes)
    return recipes


def _recipe(row: dict[str, Any], notes: dict[str, str]) -> Recipe:
    """Make a recipe of the values of a row; those that are not used here are settings."""
    epochs, sentences, every = row.pop("epochs"), row.pop("sentences"), row.pop("every")
    note = row.pop("note").format(**notes)
    if weights := row.pop("weights", ""):
        note += (
            " The authors' weights check the table without training: isospace evaluate "
            f"{weights} with `pooling` {row['pooling']} and `data` FOLDER."
        )
    return Recipe(
        table=row.pop("published"),
        note=" ".join(note.split()),
        corpus=" ".join(row.pop("corpus").split()),
        published=_by_column(row.pop("sts", {}), STS_COLUMNS),
        published_transfer=_by_column(row.pop("transfer", {}), TRANSFER_COLUMNS),
        published_dev=row.pop("dev", None),
        reruns=row.pop("reruns", None),
        config=TrainConfig(
            objective=OBJECTIVES[row.pop("objective")](**row.pop("options")),
            text=CorpusConfig(
                columns=row.pop("columns", ()),
                label_column=row.pop("label_column", None),
                near_duplicates=False,
                min_chars=1,
                passage_words=None,
            ),
            budget=(epochs, "epochs"),
            # The number of the paper on its own corpus.
            evaluations=int(epochs * sentences / (row["batch_size"] * every)),
            select="labels",
            **row,
        ),
    )


def _by_column(scores: Any, columns: tuple[str, ...]) -> dict[str, float]:
    """Return scores by column, which a full row gives as a list."""
    return dict(zip(columns, scores, strict=True)) if isinstance(scores, list) else scores


RECIPES: dict[str, Recipe] = _OURS | _of_papers()


def find(name: str) -> Recipe:
    """Return a recipe by its name.

    Raises:
        UserError: there is no such recipe; the message has the closest names.
    """
    if name in RECIPES:
        return RECIPES[name]
    raise UserError(no_such("recipe", name, RECIPES))
