"""Comparisons: resumable, equal budgets, the start in every table, verdicts from all seeds."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from isospace import compare as module
from isospace.cli import main
from isospace.compare import compare, contestant
from isospace.config import CorpusConfig, TrainConfig
from isospace.errors import UserError
from isospace.objectives import SimCSE, SimCSEPP


@pytest.fixture
def base(toy_model, toy_corpus):
    return TrainConfig(
        text=CorpusConfig(corpus=(str(toy_corpus),), held_out=40),
        objective=SimCSE(head="none"),
        model=str(toy_model),
        batch_size=8,
        budget=(32, "sentences"),
        looks=1,
        select="last",
        precision="float32",
    )


def test_contestants_are_read(base):
    config = contestant("simcse++:temperature=0.1,head=none,learning_rate=1e-4", base)
    assert config == replace(
        base, objective=SimCSEPP(temperature=0.1, head="none"), learning_rate=1e-4
    )
    assert contestant("simcse", base).objective == SimCSE()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("simsce", "no objective 'simsce'"),
        ("simcse:temprature=1", "'temprature=1' is not FIELD=VALUE with one of the fields"),
        ("simcse:temperature", "'temperature' is not FIELD=VALUE"),
        ("simcse:temperature=-1", "temperature must be above 0"),
        ("simcse:head=big", "head"),
        ("simcse:budget=3", "'budget=3' is not"),
        ("simcse:learning_rate=0", "learning-rate"),
    ],
)
def test_bad_contestants_are_refused(base, text, words):
    with pytest.raises(UserError, match=words):
        contestant(text, base)


def test_cells_are_run_once_and_compared(base, tmp_path, monkeypatch):
    settings = {name: contestant(name, base) for name in ("simcse:head=none", "whitenedcse")}
    found = compare(settings, 2, tmp_path / "c", quiet=True)
    assert list(found.scores) == ["start", "simcse:head=none", "whitenedcse"]
    assert [len(columns["MRR"]) for columns in found.scores.values()] == [1, 2, 2]
    folders = sorted(str(p.parent.relative_to(tmp_path)) for p in tmp_path.rglob("results.json"))
    assert folders == [
        "c",
        "c/simcse_head=none/seed-42",
        "c/simcse_head=none/seed-43",
        "c/whitenedcse/seed-42",
        "c/whitenedcse/seed-43",
    ]
    for name, columns in found.gains.items():
        gain, start = columns["MRR"], found.scores["start"]["MRR"][0]
        by_seed = [score - start for score in found.scores[name]["MRR"]]
        assert 100 * gain.mean == pytest.approx(np.mean(by_seed))
        assert 100 * gain.sd == pytest.approx(np.std(by_seed, ddof=1), abs=1e-9)
        assert gain.low <= gain.mean <= gain.high
    written = json.loads((tmp_path / "c" / "results.json").read_text())
    assert written == json.loads(json.dumps(found.to_json()))

    monkeypatch.setattr(module, "train", lambda *_, **kw: pytest.fail("ran again") if "resume" not in kw else _finished(kw["resume"]))  # fmt: skip
    again = compare(settings, 2, tmp_path / "c", quiet=True)
    assert again.to_json() == found.to_json()


def _finished(folder):
    from isospace.run import Outcome, Run

    run = Run(folder)
    assert run.results is not None
    return Outcome(run, run.results)


def test_a_stopped_cell_is_gone_on_with(base, tmp_path, monkeypatch):
    settings = {"simcse": contestant("simcse", base)}
    whole = compare(settings, 1, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr("isospace.train._Session._finish", lambda *_: (_ for _ in ()).throw(OSError))
        with pytest.raises(OSError):
            compare(settings, 1, tmp_path / "broken", quiet=True)
    broken = compare(settings, 1, tmp_path / "broken", quiet=True)
    assert broken.scores == whole.scores


def test_cells_of_other_settings_are_refused(base, tmp_path):
    compare({"simcse": contestant("simcse", base)}, 1, tmp_path / "c", quiet=True)
    other = {"simcse": contestant("simcse", replace(base, learning_rate=1e-3))}
    with pytest.raises(UserError, match="holds a run with other settings"):
        compare(other, 1, tmp_path / "c", quiet=True)


def test_another_models_start_is_a_row_of_its_own(base, tmp_path):
    settings = {text: contestant(text, base) for text in ("simcse", "simcse:pooling=cls")}
    found = compare(settings, 1, tmp_path / "c", quiet=True)
    assert list(found.scores) == [
        "start",
        "simcse",
        "start of simcse:pooling=cls",
        "simcse:pooling=cls",
    ]


def test_nothing_to_compare(base, tmp_path):
    with pytest.raises(UserError, match="nothing to compare"):
        compare({}, 1, tmp_path)
    settings = {"simcse": contestant("simcse", base)}
    with pytest.raises(UserError, match="--verdict-on sts: give the STS sets"):
        compare(settings, 1, tmp_path / "c", "sts", quiet=True)
    assert not (tmp_path / "c").exists()  # refused before a cell is run


def test_the_verb(base, tmp_path, toy_corpus, toy_model, capsys):
    words = ["--corpus", str(toy_corpus), "--held-out", "40", "--model", str(toy_model), "--seeds", "1",
             "--batch-size", "8", "--budget", "16", "sentences", "--looks", "1", "--precision", "float32"]  # fmt: skip
    assert main(["compare", *words]) == 2
    assert "give one or more objectives" in capsys.readouterr().err
    assert main(["compare", "simcse", "dcl:head=none", *words]) == 2
    assert "--output is missing" in capsys.readouterr().err
    assert (
        main(["compare", "simcse", "dcl:head=none", *words, "--output", str(tmp_path / "c")]) == 0
    )
    out, err = capsys.readouterr()
    assert "| dcl:head=none |" in out
    assert out.rstrip().endswith((".", "points."))
    assert "2 of 2: dcl:head=none, seed 42" in err
