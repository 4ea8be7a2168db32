import json
from dataclasses import fields
from pathlib import Path

import pytest

from isospace.config import CorpusConfig, TrainConfig
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES, SimCSE


@pytest.mark.parametrize("name", OBJECTIVES)
def test_json_both_ways(name):
    config = TrainConfig(
        text=CorpusConfig(corpus=("a.txt", "-"), passage_words=70),
        objective=OBJECTIVES[name](),
        budget=(3.0, "minutes"),
        pairs=Path("pairs.tsv"),
        trackers=("tensorboard",),
    )
    assert TrainConfig.from_json(config.to_json()) == config
    assert json.loads(config.to_json())["objective"]["name"] == name


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("batch_size", 1, "`batch_size` 1: expected 2 or more"),
        ("learning_rate", float("nan"), "`learning_rate` nan: expected a finite number"),
        ("budget", (1.0, "epoch"), "`budget` 'epoch': expected 'sentences', .*'minutes'"),
        ("pairs", 3, "`pairs` 3: expected a path"),
        ("objective", SimCSE, "SimCSE()"),
        ("bach_size", 8, "`bach_size`: no such setting. Did you mean batch_size"),
    ],
)
def test_impossible_values_are_refused(field, value, words):
    with pytest.raises(UserError, match=words):
        TrainConfig(**{field: value})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"column": "a", "columns": ("b", "c")}, "`column` a and `columns` b c"),
        ({"columns": ("b",)}, "`columns` b: only one"),
        ({"columns": ("b", "b")}, "`columns` b b: one column is named twice"),
        ({"label_column": "a"}, "`label_column` a"),
        ({"corpus": 3}, "`corpus` 3: expected a tuple"),
    ],
)
def test_impossible_text_is_refused(settings, words):
    with pytest.raises(UserError, match=words):
        CorpusConfig(**settings)


@pytest.mark.parametrize("text", ["", "[]", '{"objective": {"name": "none"}}'])
def test_what_is_no_configuration_is_refused(text):
    with pytest.raises(UserError, match="not the settings") as refused:
        TrainConfig.from_json(text)
    assert "`" not in str(refused.value)  # keys of JSON are no settings


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": {"held_out": "many"}}, "`held_out` 'many': expected a whole number"),
        ({"objective": {"name": "simsce"}}, "`objective` simsce: .* Did you mean simcse"),
    ],
)
def test_json_is_checked_like_python(change, words):
    with pytest.raises(UserError, match=words):
        TrainConfig.from_json(json.dumps({**TrainConfig().to_dict(), **change}))


def test_no_option_of_an_objective_is_called_like_a_setting_of_the_run():
    """In `compare` consert:dropout=0.1 was refused, as its own option of that name had no rates."""
    settings = {field.name for field in fields(TrainConfig)}
    for name, kind in OBJECTIVES.items():
        assert settings.isdisjoint(field.name for field in fields(kind)), name


def test_an_objective_that_is_no_row_is_refused():
    class Mine(SimCSE):
        pass

    with pytest.raises(UserError, match="`objective` Mine:"):
        TrainConfig(objective=Mine())
