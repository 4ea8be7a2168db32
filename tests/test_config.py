from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from isospace.config import CorpusConfig, TrainConfig
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES


@pytest.mark.parametrize("name", OBJECTIVES)
def test_json_both_ways(name):
    config = TrainConfig(
        text=CorpusConfig(corpus=("a.txt", "-"), max_chars=70),
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
        ("batch_size", 1, "at least 2"),
        ("batch_size", 0, "above 0"),
        ("learning_rate", float("nan"), "learning-rate"),
        ("budget", (0.0, "epochs"), "budget"),
        ("dropout", 1.5, "dropout"),
        ("evaluations", 0, "evaluations"),
        ("seed", 2**64, "`seed` 18446744073709551616: expected a number below"),
        ("evaluations", 2.5, "`evaluations` 2.5: expected a whole number"),
        ("pooling", "max", "`pooling` max: expected one of cls, mean"),
        ("precision", "fp16", "`precision` fp16"),
        ("select", "best", "`select` best: expected one of label-free, labels, last"),
        ("budget", (1.0, "epoch"), "`budget` epoch: expected one of sentences, epochs, minutes"),
        ("trackers", ("mlflow",), "`trackers` mlflow"),
    ],
)
def test_impossible_values_are_refused(field, value, words):
    with pytest.raises(UserError, match=words):
        replace(TrainConfig(), **{field: value})


@pytest.mark.parametrize("text", ["", "[]", '"text"', "7", "{}", '{"objective": {"name": "none"}}'])
def test_what_is_no_configuration_is_refused(text):
    with pytest.raises(UserError, match="not the configuration"):
        TrainConfig.from_json(text)
