"""The table of recipes: each row starts, its numbers are its paper's, and a page shows it."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sts_files import write_senteval
from toy import WORDS, sentences, write_documents, write_toy_model, write_toy_roberta

from isospace.commands.listing import command
from isospace.objectives import OBJECTIVES, DeCLUTR, WhitenedCSE
from isospace.objectives.base import Objective
from isospace.recipes import RECIPES, STS_COLUMNS, TRANSFER_COLUMNS
from isospace.training.run import Run
from isospace.training.train import train
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


UPDATES, BATCH, LINES = 2, 16, 160
_LENGTH = 512
"""Tokens that a tiny encoder reads, as the real ones do."""
_NARROWER = 16


def of_each_kind():
    """One recipe of each objective, format of the text and kind of views."""
    kinds = {}
    for name, recipe in RECIPES.items():
        config = recipe.config
        kinds.setdefault((type(config.objective), config.text.columns, config.views), name)
    return list(kinds.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("recipes")


@pytest.mark.parametrize("name", of_each_kind())
def test_a_recipe_starts_and_ships_a_model(name, folder):
    """Width, groups and projectors are a sixteenth; the other settings are the recipe's own."""
    published = RECIPES[name].config
    labelled = published.select == "labels"
    long = isinstance(published.objective, DeCLUTR)
    batch = BATCH // 8 if long else BATCH
    settings = replace(
        narrowed(published, folder),
        text=replace(published.text, corpus=(str(corpus(published, folder)),)),
        model=str(encoder(published, folder)),
        batch_size=batch,
        budget=(UPDATES * batch, "sentences"),
        evaluations=1,
        data=str(once(folder / "sts", write_senteval)) if labelled else None,
        output=folder / "runs" / name,
    )
    finished = train(settings)
    assert finished.results.training.steps == UPDATES
    assert (finished.results.base.sts is None) != labelled
    config = Run(finished.run.folder).config
    for setting in ("learning_rate", "max_length", "pooling", "select", "labels", "weight_decay"):
        assert getattr(config, setting) == getattr(published, setting)
    model = SentenceTransformer(str(finished.model_folder), device="cpu")
    assert model.encode(" ".join(WORDS[:4])).shape == (64 if "large" in published.model else 48,)


def once(path, write):
    """Write a file or folder unless an earlier test did."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    return path


def encoder(config, folder, *, masked_words=False):
    width = (1024 if "large" in config.model else 768) // _NARROWER
    roberta = "roberta" in config.model
    family, write = ("roberta", write_toy_roberta) if roberta else ("bert", write_toy_model)
    sizes = {"hidden_size": width, "num_hidden_layers": 2, "length": _LENGTH}
    name = f"{family}-{width}{'-masked' * masked_words}"
    return once(folder / name, lambda path: write(path, masked_words=masked_words, **sizes))


def narrowed(config, folder):
    changed = {}
    if isinstance(config.objective, WhitenedCSE) and config.objective.groups:
        changed["groups"] = config.objective.groups // _NARROWER
    if projector := getattr(config.objective, "projector", ()):
        changed["projector"] = tuple(size // _NARROWER for size in projector)
    if getattr(config.objective, "generator", None) is not None:
        changed["generator"] = str(encoder(config, folder, masked_words=True))
    return replace(config, objective=replace(config.objective, **changed))


def corpus(config, folder):
    text = config.text
    if config.views == "pairs":
        return once(folder / "documents", write_documents)
    if text.columns:
        labels = ("entailment", "neutral", "contradiction")
        sides = [sentences(LINES, seed) for seed in range(len(text.columns))]
        rows = [
            dict(zip(text.columns, row, strict=True))
            | ({text.label_column: labels[number % 3]} if text.label_column else {})
            for number, row in enumerate(zip(*sides, strict=True))
        ]
        content = "".join(f"{json.dumps(row)}\n" for row in rows)
        name = "labelled.jsonl" if text.label_column else "triples.jsonl"
        return once(folder / name, lambda path: path.write_text(content))
    name, lines = "lines.txt", sentences(LINES)
    if isinstance(config.objective, DeCLUTR):  # documents of four spans and more
        words = 4 * config.objective.max_span
        name = "long.txt"
        lines = [" ".join(sentences(words // 8, seed)) for seed in range(LINES // 4)]
    return once(folder / name, lambda path: path.write_text("\n".join(lines)))
