"""Runs whose pairs are too few to split: they choose the checkpoint, and they judge it."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from toy import WORDS, sentences

from isospace.config import CorpusConfig, TrainConfig
from isospace.objectives import SimCSE
from isospace.training.train import train


@pytest.fixture
def examples(config, tmp_path) -> TrainConfig:
    """A run on 360 examples, whose texts share words; 40 others are held out."""
    draw, rows = random.Random(0), []
    for question in sentences(400):
        shared = draw.sample(question.split(), k=len(question.split()) // 2)
        answer = " ".join([*shared, *draw.choices(WORDS, k=4)])
        rows.append(json.dumps({"q": question, "a": answer}))
    file = tmp_path / "examples.jsonl"
    file.write_text("\n".join(rows), encoding="utf-8")
    text = CorpusConfig(corpus=(str(file),), columns=("q", "a"))
    objective = SimCSE(head="none")
    return replace(
        config, text=text, objective=objective, views="pairs", select="label-free", evaluations=4
    )


def test_the_interval_holds_for_every_evaluation_and_the_gain_is_less(examples, monkeypatch):
    """Of four evaluations one has collapsed, and is no candidate."""
    monkeypatch.setattr(
        "isospace.training.results.is_collapsed", lambda evaluation, _: evaluation["step"] == 5
    )
    results = train(examples).results
    gain = results.verdict.gain
    assert not results.split
    assert results.training.choice.step > 0
    assert results.training.choice.collapsed == (5,)
    assert (gain.items, gain.candidates) == (40, 3)
    assert "best of 3 tried" in results.verdict.text
    seen = results.adapted.pairs.mrr - results.base.pairs.mrr
    assert gain.low <= gain.mean <= seen <= gain.high
    # With the rule "last" the same pairs judge, and nothing was chosen by them.
    last = replace(examples, select="last", output=examples.output.with_name("last"))
    plain = train(last).results.verdict.gain
    assert plain.candidates == 1
