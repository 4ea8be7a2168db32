"""Recipes of each kind start: on a tiny encoder, end to end."""

import json
from dataclasses import replace

import pytest
from sentence_transformers import SentenceTransformer
from sts_files import write_senteval
from toy import WORDS, sentences, write_documents, write_toy_model, write_toy_roberta

from isospace.objectives import DeCLUTR, WhitenedCSE
from isospace.recipes import RECIPES
from isospace.training.run import Run
from isospace.training.train import train

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
    """Return a tiny encoder of the family of the recipe's model."""
    width = (1024 if "large" in config.model else 768) // _NARROWER
    roberta = "roberta" in config.model
    family, write = ("roberta", write_toy_roberta) if roberta else ("bert", write_toy_model)
    sizes = {"hidden_size": width, "num_hidden_layers": 2, "length": _LENGTH}
    name = f"{family}-{width}{'-masked' * masked_words}"
    return once(folder / name, lambda path: write(path, masked_words=masked_words, **sizes))


def narrowed(config, folder):
    """Return settings whose objective fits the tiny encoder."""
    changed = {}
    if isinstance(config.objective, WhitenedCSE) and config.objective.groups:
        changed["groups"] = config.objective.groups // _NARROWER
    if projector := getattr(config.objective, "projector", ()):
        changed["projector"] = tuple(size // _NARROWER for size in projector)
    if getattr(config.objective, "generator", None) is not None:
        changed["generator"] = str(encoder(config, folder, masked_words=True))
    return replace(config, objective=replace(config.objective, **changed))


def corpus(config, folder):
    """Return a corpus in the format that the recipe reads."""
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
