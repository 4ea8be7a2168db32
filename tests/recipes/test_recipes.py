"""The table of recipes: each row starts, its numbers are its paper's, and a page shows it."""

import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import toy
from sentence_transformers import SentenceTransformer
from sts_files import write_senteval

from isospace.commands.listing import command
from isospace.objectives import OBJECTIVES, DeCLUTR
from isospace.recipes import RECIPES, STS_COLUMNS, TRANSFER_COLUMNS
from isospace.training.run import Run
from isospace.training.train import train

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


@pytest.mark.parametrize("name", RECIPES)
def test_the_head_fits_the_backbone(name):
    config = RECIPES[name].config
    dim = width(config.model)
    views = torch.ones(len(config.objective.views), 4, dim)
    assert config.objective.build_head(dim, seed=0, classes=3)(views).shape[1] == 4


@pytest.mark.parametrize("name", RECIPES)
def test_published_numbers_are_in_the_papers_columns(name):
    recipe = RECIPES[name]
    all_columns = (STS_COLUMNS, TRANSFER_COLUMNS)
    all_values = (recipe.published, recipe.published_transfer)
    for values, columns in zip(all_values, all_columns, strict=True):
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
        if shown:  # the page has one command for all rows
            assert command(name) == f"isospace train --recipe {name} --corpus FILE --data FOLDER"


UPDATES, BATCH, LINES = 2, 16, 160


def of_each_kind():
    """One recipe of each objective, format of the text and kind of views."""
    kinds = {}
    for name, recipe in RECIPES.items():
        config = recipe.config
        kinds.setdefault((type(config.objective), config.text.columns, config.views), name)
    return list(kinds.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with small models that read as many tokens as the real ones, and STS sets."""
    place = tmp_path_factory.mktemp("recipes")
    for name, write in (("bert", toy.write_toy_model), ("roberta", toy.write_toy_roberta)):
        write(place / name, length=512, masked_words=True, hidden_size=48, num_hidden_layers=2)
    write_senteval(place / "sts")
    return place


@pytest.mark.parametrize("name", of_each_kind())
def test_a_recipe_starts_and_ships_a_model(name, folder, tmp_path):
    """Width, groups and projectors are a sixteenth; the other settings are the recipe's own."""
    published = RECIPES[name].config
    objective, labelled = published.objective, published.select == "labels"
    smaller = {"groups": 24, "projector": (256,) * 3, "generator": str(folder / "bert")}
    changed = {name: value for name, value in smaller.items() if getattr(objective, name, None)}
    batch = BATCH // 8 if isinstance(objective, DeCLUTR) else BATCH
    settings = replace(
        published,
        objective=replace(objective, **changed),
        text=replace(published.text, corpus=(str(corpus(published, tmp_path)),)),
        model=str(folder / ("roberta" if "roberta" in published.model else "bert")),
        batch_size=batch,
        budget=(UPDATES * batch, "sentences"),
        evaluations=1,
        data=str(folder / "sts") if labelled else None,
        output=tmp_path / "run",
    )
    finished = train(settings)
    assert finished.results.training.steps == UPDATES
    assert (finished.results.base.sts is None) != labelled
    config = Run(finished.run.folder).config
    for setting in ("learning_rate", "max_length", "pooling", "select", "labels", "weight_decay"):
        assert getattr(config, setting) == getattr(published, setting)
    model = SentenceTransformer(str(finished.model_folder), device="cpu")
    assert model.encode(" ".join(toy.WORDS[:4])).shape == (48,)


def corpus(config, folder):
    """Write a small text of the columns and the length that a recipe asks for."""
    text = config.text
    if config.views == "pairs":
        return toy.write_documents(folder / "documents")
    if text.columns:
        sides = [toy.sentences(LINES, seed) for seed in range(len(text.columns))]
        rows = [dict(zip(text.columns, row, strict=True)) for row in zip(*sides, strict=True)]
        if text.label_column:
            labels = ("entailment", "neutral", "contradiction")
            rows = [row | {text.label_column: labels[n % 3]} for n, row in enumerate(rows)]
        return toy.write_rows(folder / "rows.jsonl", rows)
    lines, file = toy.sentences(LINES), folder / "lines.txt"
    if isinstance(config.objective, DeCLUTR):  # documents of four spans and more
        words = 4 * config.objective.max_span
        lines = [" ".join(toy.sentences(words // 8, seed)) for seed in range(LINES // 4)]
    file.write_text("\n".join(lines))
    return file
