import json
import math
from dataclasses import fields
from pathlib import Path

import pytest

from isospace.config import CorpusConfig, TrainConfig, read_settings
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.system import typed_json
from isospace.system.settings import to_dict


@pytest.mark.parametrize("name", OBJECTIVES)
def test_json_both_ways(name, tmp_path):
    text, budget = CorpusConfig(corpus=("a.txt", "-"), passage_words=70), (3.0, "minutes")
    others = {"pairs": Path("pairs.tsv"), "trackers": ("tensorboard",)}
    config = TrainConfig(text=text, objective=OBJECTIVES[name](), budget=budget, **others)
    path = tmp_path / "config.json"
    typed_json.write(path, config)
    assert read_settings(path, TrainConfig) == config
    assert json.loads(path.read_text("utf-8"))["objective"]["name"] == name


class Mine(SimCSE):
    """An objective that is no row of the table."""


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (TrainConfig, {"batch_size": 1}, "`batch_size` 1: expected 2 or more"),
        (TrainConfig, {"learning_rate": math.nan}, "`learning_rate` nan: expected a finite number"),
        (TrainConfig, {"budget": (1.0, "epoch")}, "`budget` 'epoch': expected .*'minutes'"),
        (TrainConfig, {"pairs": 3}, "`pairs` 3: expected a path"),
        (TrainConfig, {"objective": SimCSE}, "SimCSE()"),
        (TrainConfig, {"objective": Mine()}, "`objective` Mine:"),
        (TrainConfig, {"bach_size": 8}, "`bach_size`: no such setting. Did you mean batch_size"),
        (
            CorpusConfig,
            {"column": "a", "columns": ("b", "c")},
            "`column` a is for documents .* `columns` b c out",
        ),
        (CorpusConfig, {"columns": ("b",)}, "`columns` b: only one"),
        (CorpusConfig, {"columns": ("b", "b")}, "`columns` b b: one column is named twice"),
        (CorpusConfig, {"label_column": "a"}, "`label_column` a"),
        (CorpusConfig, {"corpus": 3}, "`corpus` 3: expected a tuple"),
    ],
)
def test_impossible_settings_are_refused(kind, settings, words):
    with pytest.raises(UserError, match=words):
        kind(**settings)


@pytest.mark.parametrize("text", ["", "[]", "\xff", '{"objective": {"name": "none"}}'])
def test_what_is_no_configuration_is_refused(text, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text, "latin-1")
    with pytest.raises(UserError, match=r"config\.json: not the settings") as refused:
        read_settings(path, TrainConfig)
    assert "`" not in str(refused.value)  # keys of JSON are no settings


def test_settings_without_the_objective_are_not_those_of_simcse(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"text": {"corpus": ["a.txt"]}, "model": "minilm"}))
    with pytest.raises(UserError, match=r"config\.json: .* the key \w+ is missing"):
        read_settings(path, TrainConfig)


def test_json_is_checked_like_python(tmp_path):
    wrong = {"objective": {"name": "simsce"}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(to_dict(TrainConfig()) | wrong))
    with pytest.raises(UserError, match=r"`objective` simsce: .* Did you mean simcse"):
        read_settings(path, TrainConfig)


def test_no_option_of_an_objective_is_called_like_a_setting_of_the_run():
    settings = {field.name for field in fields(TrainConfig)}
    for name, kind in OBJECTIVES.items():
        assert settings.isdisjoint(field.name for field in fields(kind)), name
