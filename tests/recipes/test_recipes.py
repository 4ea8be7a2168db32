"""The table of recipes: each row can be run, its numbers are its paper's, and a page shows it."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from isospace.commands.recipes import command
from isospace.objectives import OBJECTIVES, DeCLUTR
from isospace.objectives.base import Objective
from isospace.recipes import RECIPES, STS_COLUMNS, TRANSFER_COLUMNS
from isospace.views import Views

WITHOUT_RECIPE = {
    "barlow-twins": "a paper on images",
    "vicreg": "a paper on images",
    "covariance-identity": "no paper",
    "ct-in-batch": "no paper",
    "rankcse": "needs two teachers",
    "tsdae": "a paper on adapting to domains",
    "iso": "no paper",
}
"""Objective -> the reason why it has no published STS scores to reproduce."""
PUBLISHED = [name for name, recipe in RECIPES.items() if recipe.config.select == "labels"]


def width(model):
    return 384 if model == "minilm" else 1024 if "large" in model else 768


def reads_vectors_only(objective):
    """Whether the terms need no tokens and nothing that is built beside an encoder."""
    auxiliaries = type(objective).build_auxiliaries is not Objective.build_auxiliaries
    tokens = any(view.read == "tokens" for view in objective.views)
    return not (auxiliaries or tokens or objective.inputs)


@pytest.mark.parametrize("name", RECIPES)
def test_head_and_loss_fit_the_backbone(name):
    config = RECIPES[name].config
    objective, dim = config.objective, width(config.model)
    generator = torch.Generator().manual_seed(0)
    encoded = torch.randn(len(objective.views), 16, dim, generator=generator)
    projected = objective.build_head(dim, seed=0, classes=3)(encoded)
    assert projected.shape[1] == 16
    if not reads_vectors_only(objective):
        return
    labels = torch.arange(16) % 3 if objective.reads_labels else None
    terms = objective(Views(encoded, projected, labels=labels))
    assert tuple(terms) == objective.term_names
    assert all(term.isfinite() for term in terms.values())


@pytest.mark.parametrize("name", RECIPES)
def test_published_numbers_are_in_the_papers_columns(name):
    recipe = RECIPES[name]
    for values, columns in (
        (recipe.published, STS_COLUMNS),
        (recipe.published_transfer, TRANSFER_COLUMNS),
    ):
        assert all(10 < value < 100 for value in values.values())
        assert set(values) <= {*columns, "STS12-16"}
        if len(values) == len(columns):
            *sets, average = (values[column] for column in columns)
            mean = sum(sets) / len(sets)
            differs = f"The mean of the published columns is {mean:.2f}" in recipe.note
            assert (abs(average - mean) < 0.011) != differs
        elif "STS12-16" not in values:
            assert set(values) <= {"Avg"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_rows_of_papers_say_where_and_how(name):
    recipe = RECIPES[name]
    assert recipe.published or recipe.published_transfer or recipe.published_dev is not None
    paper = recipe.table.split(",")[0]
    assert name.startswith(paper.lower().removesuffix("++"))  # it has rows of SimCSE too
    assert recipe.note
    config = recipe.config
    assert config.text.corpus == ()
    assert config.objective.texts == max(1, len(config.text.columns))
    assert config.budget[1] == "epochs"


def test_every_objective_with_published_sts_scores_has_a_recipe():
    """A new objective without scores to reproduce is a line of `WITHOUT_RECIPE`."""
    used = {type(recipe.config.objective) for recipe in RECIPES.values()}
    assert {name for name, kind in OBJECTIVES.items() if kind not in used} == set(WITHOUT_RECIPE)


def test_spans_of_documents_fit_into_roberta():
    """Which reads 512 tokens with the special ones; the paper's spans have up to 512 without."""
    encoder = SimpleNamespace(dim=8, max_length=512, word_embeddings=torch.nn.Embedding(9, 8))
    assert RECIPES["declutr-roberta-base"].config.objective.build_auxiliaries(encoder, seed=0)
    with pytest.raises(ValueError, match="510"):
        DeCLUTR().build_auxiliaries(encoder, seed=0)


def test_the_page_is_drawn_from_the_recipes():
    docs = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "docs.py"))
    page = docs["REPRODUCE"].read_text(encoding="utf-8")
    assert docs["with_recipes"](page) == page
    for name, recipe in RECIPES.items():
        shown = f"\n| `{name}` | {recipe.table} |" in page
        assert shown == name.endswith("-base"), name
        # The page has one command for all rows.
        assert (
            not shown
            or command(name) == f"isospace train --recipe {name} --corpus FILE --data FOLDER"
        )
