from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from report_runs import results_of
from toy import sentences

from isospace.commands.export import Export
from isospace.encoders.loading import load_encoder
from isospace.encoders.saving import save_model
from isospace.errors import UserError
from isospace.export import ship as shipping
from isospace.export.ship import export
from isospace.statistics.gains import Gain
from isospace.statistics.verdict import Verdict, VerdictKind
from isospace.training.card import model_card
from isospace.training.results import CorpusFacts, write_results
from isospace.training.run import Run
from isospace.training.selection import Choice

RESULTS = results_of(
    mrr=0.5,
    gain=0.125,
    corpus=CorpusFacts(1234, "d1gest", {"read": 2000, "too short": 0}),
    pooling="mean",
    steps=20,
    model_step=20,
    choice=Choice(20, "last", "step", (), "the last evaluation"),
    verdict=Verdict(
        VerdictKind.ADAPTED,
        "Adapted: much better.",
        "MRR of my pairs",
        Gain(0.1, 0.05, 0.2, 0.01, items=90, groups=40, changed=60, changed_groups=30),
    ),
)


@pytest.fixture
def run(config, toy_model, tmp_path):
    """A finished run on the toy, without the training."""
    run = Run.create(replace(config, output=tmp_path / "run"))
    run.metrics_path.touch()
    write_results(run.results_path, RESULTS)
    encoder = load_encoder(str(toy_model), "first_last", device="cpu")
    save_model(encoder, run.model_folder, model_card(run.config, RESULTS, encoder.pooling))
    return run


@pytest.mark.parametrize("part", ["", "model"])
def test_a_run_is_exported_with_its_card(run, part):
    made = export(str(run.folder / part), "st")
    assert made.folder == run.folder / "st"
    assert made.gap <= 1e-6
    exported, ours = (load_encoder(str(f), device="cpu") for f in (made.folder, run.model_folder))
    assert np.array_equal(exported.embed(sentences(5)), ours.embed(sentences(5)))
    card = (made.folder / "README.md").read_text()
    for part in ("Adapted: much better.", "| this model | 62.50 |", "1,234 sentences", "`d1gest`",
                 "2,000 read", "WhitenedCSE", "@", "Licence of the base model: unknown", "MRR of my pairs"):  # fmt: skip
        assert part in card
    assert "too short" not in card
    assert str(run.folder.parent) not in card


def test_a_plain_model_gets_no_invented_history(toy_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = export(str(toy_model), "hf")
    assert made.folder.resolve() == tmp_path / "bert-hf"
    card = (made.folder / "README.md").read_text()
    assert "not known here" in card
    assert "Licence of this model: unknown" in card
    assert "license:" not in card
    assert "MRR" not in card


def test_a_start_that_is_gone_is_no_model_of_the_hub(run, tmp_path, monkeypatch):
    """`projects/start` was a folder when the run began; here it looks like a name of the Hub."""
    other_text = replace(run.config, model="projects/start")
    (run.folder / "config.json").write_text(other_text.to_json())
    monkeypatch.chdir(tmp_path)
    card = (export(str(run.folder), "st").folder / "README.md").read_text()
    assert "base_model" not in card
    assert "projects" not in card
    assert "# bert, adapted without labels" in card


def test_nothing_is_overwritten(run, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").touch()
    with pytest.raises(UserError, match=r"`output` .*there: exists already"):
        export(str(run.folder), "st", tmp_path / "there")


def test_an_unfinished_run_is_refused(run):
    run.results_path.unlink()
    with pytest.raises(UserError, match="`resume`"):
        export(str(run.folder), "st")


def test_the_command_prints_what_was_found(run, capsys, monkeypatch):
    Export(str(run.folder), "st").run()
    shown = capsys.readouterr().err
    assert "largest 1 - cosine" in shown
    assert "(limit 1e-06)" in shown
    monkeypatch.setattr(shipping, "save_onnx", lambda *_: 1e-9)
    Export(str(run.folder), "onnx", json=True).run()
    made = json.loads(capsys.readouterr().out)
    assert made == {"folder": str(run.folder / "onnx"), "gap": 1e-9, "limit": 1e-5}
