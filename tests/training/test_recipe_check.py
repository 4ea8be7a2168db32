"""Every recipe starts: on a tiny encoder, end to end."""

from __future__ import annotations

import pytest
from sentence_transformers import SentenceTransformer
from toy import WORDS

from isospace.cli import main
from isospace.recipes import RECIPES
from isospace.training.recipe_check import UPDATES, check_recipe
from isospace.training.run import Run


def _kinds() -> dict[tuple[object, ...], str]:
    """One recipe of each objective, format of the text and kind of views."""
    kinds: dict[tuple[object, ...], str] = {}
    for name, recipe in RECIPES.items():
        config = recipe.config
        kinds.setdefault((type(config.objective), config.text.columns, config.views), name)
    return kinds


OF_EACH_KIND = set(_kinds().values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("recipes")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in OF_EACH_KIND else pytest.mark.exhaustive)
        for name in RECIPES
    ],
)
def test_a_recipe_starts_and_ships_a_model(name, folder):
    """The others of a kind differ in numbers alone; `make test-all` runs them too."""
    finished = check_recipe(name, folder)
    assert finished.results.steps == UPDATES
    assert (finished.results.base.sts is None) == (RECIPES[name].config.select != "labels")
    config, published = Run(finished.run.folder).config, RECIPES[name].config
    for setting in ("learning_rate", "max_length", "pooling", "select", "labels", "weight_decay"):
        assert getattr(config, setting) == getattr(published, setting)
    model = SentenceTransformer(str(finished.model_folder), device="cpu")
    assert model.encode(" ".join(WORDS[:4])).shape == (64 if "large" in published.model else 48,)


def test_the_command_says_which_recipes_start(capsys):
    assert main(["recipes", "simcse-bert-base", "--check"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("simcse-bert-base: starts")
    assert "plain Hugging Face model" not in printed.err
    assert main(["recipes", "--check", "simcse-bert"]) == 2
    assert "simcse-bert-base" in capsys.readouterr().err
