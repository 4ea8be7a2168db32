"""The table of recipes: each row can be run, and its numbers are those of its paper."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import torch

from isospace.config import TrainConfig
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES, SCD, SimCSE, SimCSEPP, WhitenedCSE
from isospace.objectives.base import Views
from isospace.recipes import RECIPES, STS_COLUMNS, TRANSFER_COLUMNS, find

PAPERS = [kind.paper.title for kind in (WhitenedCSE, SCD, SimCSEPP)]
PUBLISHED = [name for name, recipe in RECIPES.items() if recipe.config.select == "labels"]


def width(model: str) -> int:
    return 384 if model == "minilm" else 1024 if "large" in model else 768


@pytest.mark.parametrize("name", RECIPES)
def test_json_both_ways(name):
    config = RECIPES[name].config
    assert TrainConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize("name", RECIPES)
def test_head_and_loss_fit_the_backbone(name):
    config = RECIPES[name].config
    objective, dim = config.objective, width(config.model)
    generator = torch.Generator().manual_seed(0)
    encoded = torch.randn(len(objective.views), 16, dim, generator=generator)
    projected = objective.build_head(dim, seed=0)(encoded)
    terms = objective(Views(encoded, projected))
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
            assert average == pytest.approx(sum(sets) / len(sets), abs=0.011)
        elif "STS12-16" not in values:
            assert set(values) <= {"Avg"}


def test_scd_terms_are_in_the_columns_of_the_whole():
    """The paper's ablation has 73.96 / 76.30 / 73.18 for both terms: the mean of five sets first."""
    whole = RECIPES["scd-bert-base"].published
    mean = sum(whole[column] for column in STS_COLUMNS[:5]) / 5
    assert (mean, whole["STS-B"], whole["SICK-R"]) == pytest.approx((73.96, 76.30, 73.18), abs=0.01)


@pytest.mark.parametrize("name", PUBLISHED)
def test_rows_of_papers_say_where_and_how(name):
    recipe = RECIPES[name]
    assert recipe.published or recipe.published_transfer or recipe.published_dev is not None
    assert recipe.table.split(",")[0] in ("SimCSE", "WhitenedCSE", "SCD", "SimCSE++")
    assert recipe.note
    config = recipe.config
    assert config.pooling == "cls"
    assert config.max_length == 32
    assert config.text.corpus == ()
    assert config.objective.texts == max(1, len(config.text.columns))
    assert config.budget[1] == "epochs"


def test_names_are_safe_on_a_command_line():
    for name in RECIPES:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", name), name


def test_no_two_rows_are_the_same():
    rows = Counter((recipe.config.to_json(), recipe.corpus) for recipe in RECIPES.values())
    assert max(rows.values()) == 1


def test_every_objective_of_the_three_papers_has_a_recipe():
    used = {type(recipe.config.objective) for recipe in RECIPES.values()}
    theirs = {kind for kind in OBJECTIVES.values() if kind.paper.title in PAPERS}
    assert len(theirs) == 7
    assert theirs <= used


@pytest.mark.parametrize(
    ("start", "model"),
    [
        ("simcse-bert-base", "bert-base-uncased"),
        ("simcse++-bert-large", "bert-large-uncased"),
        ("whitenedcse-roberta-base", "roberta-base"),
        ("simcse++-sbert-base", "sentence-transformers/bert-base-nli-cls-token"),
        ("simcse-sbert-large", "sentence-transformers/bert-large-nli-cls-token"),
    ],
)
def test_names_begin_with_paper_and_backbone(start, model):
    rows = [recipe for name, recipe in RECIPES.items() if name.startswith(start)]
    assert rows
    assert {recipe.config.model for recipe in rows} == {model}


FAMILIES = {
    r"whitenedcse-bert-base-groups-(\d+)": ("groups", 7),
    r"whitenedcse-bert-base-groups-(\d+)-unshuffled": ("groups", 8),
    r"whitenedcse-bert-base-positives-(\d)": ("num_views", 3),
    r"whitenedcse-bert-base-positives-(\d)-unwhitened": ("num_views", 2),
    r"simcse\+\+-bert-base-rank-(\d+)": ("rows", 4),
    r"simcse\+\+-bert-base-m-([\d.]+)": ("m", 5),
    r"simcse\+\+-bert-base-lambda-([\d.]+)": ("dimension_weight", 5),
    r"simcse\+\+-bert-base-tau-(\d+)": ("dimension_temperature", 5),
}


@pytest.mark.parametrize("pattern", FAMILIES)
def test_names_of_a_family_say_what_is_set(pattern):
    field, count = FAMILIES[pattern]
    found = [(match, RECIPES[name]) for name in RECIPES if (match := re.fullmatch(pattern, name))]
    assert len(found) == count
    for match, recipe in found:
        assert getattr(recipe.config.objective, field) == float(match[1])
        if "whitened" in pattern:
            expected = {"unshuffled": "group", "unwhitened": "none"}
            assert recipe.config.objective.whitening == expected.get(
                match[0].split("-")[-1], "shuffled-group"
            )


@pytest.mark.parametrize(
    ("name", "noise", "part", "published"),
    [
        ("pos-more", "more", "positives", 75.25),
        ("pos-less", "less", "positives", 65.55),
        ("neg-more", "more", "negatives", 74.53),
        ("neg-less", "less", "negatives", 77.06),
    ],
)
def test_noise_study(name, noise, part, published):
    recipe = RECIPES[f"simcse++-bert-base-noise-{name}"]
    assert (recipe.config.objective.noise, recipe.config.objective.part) == (noise, part)
    assert recipe.published["Avg"] == published


@pytest.mark.parametrize(
    ("name", "batch", "rate", "evaluations", "labels"),
    [
        ("simcse-bert-base", 64, 3e-5, 125, "stsb-dev"),
        ("simcse-roberta-large", 512, 3e-5, 15, "stsb-dev"),
        ("whitenedcse-bert-base", 64, 3e-5, 125, "stsb-dev"),
        ("simcse++-bert-large", 64, 8e-6, 125, "stsb-dev"),
        ("scd-roberta-base", 192, 3e-5, 20, "sickr-dev"),
    ],
)
def test_optimiser_and_selection_are_the_papers(name, batch, rate, evaluations, labels):
    config = RECIPES[name].config
    assert (config.batch_size, config.learning_rate) == (batch, rate)
    assert (config.evaluations, config.labels, config.budget) == (
        evaluations,
        labels,
        (1.0, "epochs"),
    )


def test_what_cannot_be_run_as_published_says_so():
    large = RECIPES["whitenedcse-bert-large"]
    with pytest.raises(ValueError, match="384"):
        WhitenedCSE(groups=384).build_head(1024, seed=0)
    assert "384 groups, which do not divide 1024" in large.note
    assert large.config.objective == WhitenedCSE(groups=512)
    assert "not built" in RECIPES["simcse++-diffcse-bert-base"].note


@pytest.mark.parametrize("backbone", ["bert-base", "bert-large", "roberta-base"])
def test_what_departs_from_the_paper_is_named(backbone):
    recipe = RECIPES[f"whitenedcse-{backbone}"]
    objective = recipe.config.objective
    assert (objective.positives, objective.stop_gradient, objective.eps) == ("dropout", True, 1e-5)
    for setting in ("`positives` permutation", "`stop_gradient` false", "`eps` 0"):
        assert setting in recipe.note


def test_the_default_is_ours():
    recipe = RECIPES["adapt"]
    assert recipe.config.model == "minilm"
    assert not recipe.published
    assert isinstance(recipe.config.objective, SimCSE)


def test_unknown_names_are_answered_with_close_ones():
    with pytest.raises(UserError, match=r"no such recipe; close: .*whitenedcse-bert-base"):
        find("whitened-bert-base")
    with pytest.raises(UserError, match="`isospace recipes` lists all"):
        find("???")
