from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy import sentences

from isospace.commands.export import Export
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.export import ship as shipping
from isospace.export.ship import export
from isospace.operators.nearest import unit_rows


@pytest.mark.parametrize("part", ["", "model"])
def test_a_run_is_exported_with_its_card(finished_copy, part):
    run, results = finished_copy, finished_copy.finished
    made = export(str(run.folder / part), "st")
    assert made.folder == run.folder / "st"
    assert made.gap <= 1e-6
    exported, ours = (load_encoder(str(f), device="cpu") for f in (made.folder, run.model_folder))
    assert np.array_equal(exported.embed(sentences(5)), ours.embed(sentences(5)))
    card = (made.folder / "README.md").read_text()
    for fact in (
        results.summary,
        f"{100 * results.base.pairs.mrr:.2f}",
        f"{100 * results.adapted.pairs.mrr:.2f}",
        f"{results.corpus.sentences:,} sentences",
        f"`{results.corpus.digest}`",
        "WhitenedCSE",
        "Licence of the base model: unknown",
    ):
        assert fact in card
    assert str(run.folder.parent) not in card


def test_a_plain_model_gets_no_invented_history(toy_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = export(str(toy_model), "st")
    assert made.folder.resolve() == tmp_path / "bert-st"
    card = (made.folder / "README.md").read_text()
    assert "not known here" in card
    assert "Licence of this model: unknown" in card
    assert "license:" not in card
    assert "MRR" not in card
    # The guide's code, with transformers alone.
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "export.md").read_text()
    *_, code = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    names = {}
    exec(code.replace('"minilm-st"', repr(str(made.folder))), names)
    ours = load_encoder(str(toy_model), device="cpu").embed(["one sentence", "another sentence"])
    assert np.allclose(names["vectors"], unit_rows(ours), atol=1e-6)


def test_a_start_that_is_gone_is_no_model_of_the_hub(finished_copy, tmp_path, monkeypatch):
    """`projects/start` was a folder when the run began; here it looks like a name of the Hub."""
    moved = replace(finished_copy.config, model="projects/start")
    finished_copy.write_config(moved)
    monkeypatch.chdir(tmp_path)
    card = (export(str(finished_copy.folder), "st").folder / "README.md").read_text()
    assert "base_model" not in card
    assert "projects" not in card
    assert "# bert, " in card


def test_nothing_is_overwritten(finished_run, tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UserError, match=r"`output` .*: exists already"):
        export(str(finished_run.folder), "st", tmp_path)


def test_an_unfinished_run_is_refused(finished_copy):
    finished_copy.results_path.unlink()
    with pytest.raises(UserError, match="`resume`"):
        export(str(finished_copy.folder), "st")


def test_the_command_prints_what_was_found(finished_copy, capsys, monkeypatch):
    folder = str(finished_copy.folder)
    Export(folder, "st").run()
    assert "largest 1 - cosine" in capsys.readouterr().err
    monkeypatch.setattr(shipping, "save_onnx", lambda *_: 1e-9)
    Export(folder, "onnx", json=True).run()
    made = json.loads(capsys.readouterr().out)
    assert made == {"folder": f"{folder}/onnx", "gap": 1e-9, "limit": 1e-5}
