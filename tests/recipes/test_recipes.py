"""The table of recipes: each row can be run, and its numbers are those of its paper."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from isospace.config import TrainConfig
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES, DeCLUTR, SimCSE, SimCSEPP, WhitenedCSE
from isospace.objectives.base import Objective
from isospace.recipes import RECIPES, STS_COLUMNS, TRANSFER_COLUMNS, find
from isospace.views import Views

POOLED_BY_MEAN = ("CT", "IS-BERT", "ConSERT", "DeCLUTR", "VaSCL", "SBERT")
LENGTHS = {"CT": 75, "IS-BERT": 128, "ConSERT": 64, "SBERT": 128}
"""Tokens of a sentence, where they are not 32."""
PUBLISHED = [name for name, recipe in RECIPES.items() if recipe.config.select == "labels"]


_BASE, _BERT = "bert-base roberta-base", "bert-base bert-large"
_ALL = f"{_BERT} roberta-base roberta-large"
BACKBONES = {
    "simcse": _ALL, "whitenedcse": f"{_BERT} roberta-base", "scd": _BASE, "simcse++": _BERT,
    "is-bert": "bert-base", "ct": "bert-base", "consert": _BERT, "declutr": "roberta-base",
    "dclr": _ALL, "arccse": _BERT, "mixcse": _BERT, "mocose": _BERT, "diffcse": _BASE,
    "esimcse": _ALL, "gs-infonce": _ALL, "vascl": "roberta-base roberta-large", "pcl": _ALL,
    "promptbert": _BASE, "sbert": _BERT,
}  # fmt: skip


def width(model: str) -> int:
    return 384 if model == "minilm" else 1024 if "large" in model else 768


@pytest.mark.parametrize("name", RECIPES)
def test_json_both_ways(name):
    config = RECIPES[name].config
    assert TrainConfig.from_json(config.to_json()) == config


def reads_vectors_only(objective: Objective) -> bool:
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
    projected = objective.build_classifier(dim, 3, seed=0)(encoded)
    assert projected.shape[:2] == (objective.projected_views(batch=16), 16)
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


def test_scd_terms_are_in_the_columns_of_the_whole():
    """The paper's ablation has 73.96 / 76.30 / 73.18 for both terms: the mean of five sets first."""
    whole = RECIPES["scd-bert-base"].published
    mean = sum(whole[column] for column in STS_COLUMNS[:5]) / 5
    assert (mean, whole["STS-B"], whole["SICK-R"]) == pytest.approx((73.96, 76.30, 73.18), abs=0.01)


@pytest.mark.parametrize("name", PUBLISHED)
def test_rows_of_papers_say_where_and_how(name):
    recipe = RECIPES[name]
    assert recipe.published or recipe.published_transfer or recipe.published_dev is not None
    paper = recipe.table.split(",")[0]
    assert name.startswith(paper.lower().removesuffix("++"))  # it has rows of SimCSE too
    assert recipe.note
    config = recipe.config
    assert config.pooling == ("mean" if paper in POOLED_BY_MEAN else "cls")
    assert config.max_length == LENGTHS.get(paper, 32)
    assert config.text.corpus == ()
    assert config.objective.texts == max(1, len(config.text.columns))
    assert config.budget[1] == "epochs"


def test_names_are_safe_on_a_command_line():
    for name in RECIPES:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", name), name


def test_no_two_rows_are_the_same():
    rows = Counter((recipe.config.to_json(), recipe.corpus) for recipe in RECIPES.values())
    assert max(rows.values()) == 1


def test_every_objective_with_published_sts_scores_has_a_recipe():
    """Without are those of images, the one of another loss of this package, and of two teachers."""
    used = {type(recipe.config.objective) for recipe in RECIPES.values()}
    assert {name for name, kind in OBJECTIVES.items() if kind not in used} == {
        "barlow-twins",
        "vicreg",
        "covariance-identity",
        "ct-in-batch",
        "rankcse",
        "tsdae",
        "iso",
    }


def test_every_backbone_of_a_paper_has_its_rows():
    backbones = ("bert-base", "bert-large", "roberta-base", "roberta-large")
    rows = {
        paper: {backbone for backbone in backbones if f"{paper}-{backbone}" in RECIPES}
        for paper in BACKBONES
    }
    assert rows == {paper: set(found.split()) for paper, found in BACKBONES.items()}


@pytest.mark.parametrize(
    ("start", "model"),
    [
        ("simcse-bert-base", "bert-base-uncased"),
        ("simcse++-bert-large", "bert-large-uncased"),
        ("whitenedcse-roberta-base", "roberta-base"),
        ("simcse++-sbert-base", "sentence-transformers/bert-base-nli-cls-token"),
        ("simcse-sbert-large", "sentence-transformers/bert-large-nli-cls-token"),
        ("dclr-roberta-base", "princeton-nlp/unsup-simcse-roberta-base"),
        ("diffcse-bert-base", "bert-base-uncased"),
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
        ("is-bert-bert-base", 32, 2e-5, 31, "stsb-dev"),
        ("arccse-bert-large", 64, 1e-5, 125, "stsb-dev"),
        ("mixcse-bert-base", 64, 3e-5, 125, "stsb-dev"),
        ("mocose-bert-base", 256, 3e-5, 22, "stsb-dev"),
        ("esimcse-roberta-large", 64, 1e-5, 125, "stsb-dev"),
        ("gs-infonce-roberta-large", 128, 2e-5, 62, "stsb-dev"),
        ("pcl-bert-base", 64, 3e-5, 125, "stsb-dev"),
        ("promptbert-roberta-base", 256, 1e-5, 31, "stsb-dev"),
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


@pytest.mark.parametrize(
    ("name", "epochs", "evaluations"),
    [
        ("ct-bert-base", 0.08, 10),  # 5,000 updates of 10^6 sentences, as in the released script
        ("consert-bert-base", 10, 46),
        ("consert-bert-large", 25, 232),
        ("dclr-roberta-base", 3, 187),
        ("diffcse-bert-base-transfer", 2, 250),
        ("vascl-roberta-large", 5, 48),
    ],
)
def test_the_time_of_those_that_take_no_epoch(name, epochs, evaluations):
    config = RECIPES[name].config
    assert (config.budget, config.evaluations) == ((epochs, "epochs"), evaluations)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("consert-bert-large", {"first": "none", "second": "shuffle", "with_dropout": True}),
        ("dclr-bert-large", {"noise_times": 3.0, "threshold": 0.9}),
        ("dclr-roberta-base", {"noise_times": 2.5, "threshold": 0.85}),
        ("diffcse-roberta-base", {"mask_rate": 0.2, "generator": "distilroberta-base"}),
        ("diffcse-bert-base-transfer", {"mask_rate": 0.15, "detection_weight": 0.05}),
        ("esimcse-roberta-base", {"repetition_rate": 0.30, "queue_size": 160}),
        ("esimcse-roberta-large", {"repetition_rate": 0.28, "queue_size": 128}),
        ("promptbert-roberta-base", {"second": "The sentence : ' {} ' means [MASK]."}),
    ],
)
def test_options_that_a_backbone_has_of_its_own(name, options):
    objective = RECIPES[name].config.objective
    assert {option: getattr(objective, option) for option in options} == options


def test_rates_of_dropout_and_decay_that_are_not_the_usual():
    rates = {name: r.config.dropout for name, r in RECIPES.items() if r.config.dropout is not None}
    assert rates == {
        "esimcse-roberta-large": 0.15, "gs-infonce-bert-base": 0.2, "gs-infonce-bert-large": 0.2,
    }  # fmt: skip
    decays = {name: r.config.weight_decay for name, r in RECIPES.items() if r.config.weight_decay}
    assert decays == {
        "declutr-roberta-base": 0.1, "mocose-bert-base": 1e-6, "mocose-bert-large": 1e-6,
    }  # fmt: skip


def test_spans_of_documents_fit_into_roberta():
    """Which reads 512 tokens with the special ones; the paper's spans have up to 512 without."""
    encoder = SimpleNamespace(dim=8, max_length=512, word_embeddings=torch.nn.Embedding(9, 8))
    assert RECIPES["declutr-roberta-base"].config.objective.build_auxiliaries(encoder, seed=0)
    with pytest.raises(ValueError, match="more than the 510 tokens"):
        DeCLUTR().build_auxiliaries(encoder, seed=0)


def test_simcsepp_lies_over_diffcse():
    config, alone = (
        RECIPES[name].config for name in ("simcse++-diffcse-bert-base", "diffcse-bert-base")
    )
    assert config.objective == replace(
        alone.objective, clean_negatives=True, dimension_weight=SimCSEPP().dimension_weight
    )
    assert config.objective.dimension_temperature == SimCSEPP().dimension_temperature
    assert replace(config, objective=alone.objective) == alone


def test_what_cannot_be_run_as_published_says_so():
    large = RECIPES["whitenedcse-bert-large"]
    with pytest.raises(ValueError, match="384"):
        WhitenedCSE(groups=384).build_head(1024, seed=0)
    assert "384 groups, which do not divide 1024" in large.note
    assert large.config.objective == WhitenedCSE(groups=512)
    assert "Trained on the texts of the tests" in RECIPES["consert-bert-base"].note


@pytest.mark.parametrize("backbone", ["bert-base", "bert-large", "roberta-base"])
def test_what_departs_from_the_paper_is_named(backbone):
    recipe = RECIPES[f"whitenedcse-{backbone}"]
    objective = recipe.config.objective
    assert (objective.positives, objective.stop_gradient, objective.eps) == ("dropout", True, 1e-5)
    for setting in ("`positives` permutation", "`stop_gradient` false", "`eps` 0"):
        assert setting in recipe.note


def test_the_default_is_ours():
    recipe = RECIPES["dropout"]
    assert recipe.config.model == "minilm"
    assert not recipe.published
    assert isinstance(recipe.config.objective, SimCSE)


def test_unknown_names_are_answered_with_close_ones():
    with pytest.raises(UserError, match=r"no such recipe. Did you mean whitenedcse-bert-base"):
        find("whitened-bert-base")
    with pytest.raises(UserError, match="`isospace recipes` lists all"):
        find("???")
