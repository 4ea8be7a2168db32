"""`adapt` with several base models: the best of them, whitened, is fine-tuned."""

import re
from dataclasses import replace

import pytest
from prompted import load_again
from resumed import assert_same_weights, cut_short
from routed import write_static
from searches import small_search
from toy import write_toy_model

from isospace.adaptation import adapt as module
from isospace.adaptation.adapt import adapt
from isospace.adaptation.results import read_candidates
from isospace.cli import main
from isospace.errors import Interrupted, UserError
from isospace.report.run_set import collect
from isospace.report.write import write_report
from isospace.system.progress import Silent


@pytest.fixture(scope="module")
def config(small_split, toy_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("base-models")
    other = write_toy_model(folder / "other", hidden_size=48, intermediate_size=64)
    models = (str(other), str(toy_model))
    return replace(small_search(folder, toy_model), model="minilm", models=models)


class Shown(Silent):
    """Keep the rows of the first table."""

    rows = None

    def table(self, title, rows):
        self.rows = self.rows or rows


@pytest.fixture(scope="module")
def shown():
    return Shown()


@pytest.fixture(scope="module")
def adapted(config, shown):
    return adapt(config, progress=shown)


def test_the_model_that_finds_most_validation_pairs_goes_on(config, adapted, shown):
    assert [row[""] for row in shown.rows] == list(config.models)
    assert [row["dimensions"] for row in shown.rows] == ["48", "32"]
    assert all(float(row["texts a second"]) > 0 for row in shown.rows)
    second, best = sorted(shown.rows, key=lambda row: float(row["validation MRR"]))
    assert [row["selected"] for row in (second, best)] == ["", "yes"]
    assert best[""] == adapted.run.config.model
    assert best["base model"] == f"{100 * adapted.results.base.pairs.mrr:.2f}"
    searched = read_candidates(adapted.run.folder)
    closed_forms = [one.mrr for one in searched.candidates[:4]]
    assert best["validation MRR"] == f"{100 * max(closed_forms):.2f}"
    verdict = next(note for note in searched.notes if " is selected, before " in note)
    gain = float(re.search(r"is ([+-][\d.]+) points", verdict)[1])
    assert gain == pytest.approx(float(best["adapted"]) - float(second["adapted"]), abs=0.02)
    assert load_again(adapted.model_folder).get_embedding_dimension() == int(best["dimensions"])
    page = write_report(collect([adapted.run.folder])).read_text(encoding="utf-8")
    assert all(name in page for name in config.models)


@pytest.mark.exhaustive
def test_the_search_is_that_of_the_selected_model_alone(config, adapted, tmp_path):
    one = replace(config, models=(), model=adapted.run.config.model, output=tmp_path / "run")
    alone = adapt(one, progress=Silent())
    assert alone.results.verdict.gain == adapted.results.verdict.gain
    assert_same_weights(alone.run, adapted.run)


@pytest.mark.parametrize("at", ["compared", pytest.param("searched", marks=pytest.mark.exhaustive)])
def test_a_run_that_was_stopped_goes_on_to_the_same_end(config, adapted, tmp_path, at):
    config = replace(config, output=tmp_path / "run")
    step, call = ("score_test_pairs", 2) if at == "compared" else ("_search", 1)
    with pytest.raises(Interrupted), cut_short(module, step, call=call):
        adapt(config, progress=Silent())
    again = adapt(resume=config.output, progress=Silent())
    assert again.run.config.model == adapted.run.config.model
    assert again.results.verdict.gain == adapted.results.verdict.gain
    assert_same_weights(again.run, adapted.run)


def test_an_untrainable_or_missing_model_is_refused(config, toy_model, tmp_path, monkeypatch):
    for name in (str(write_static(toy_model, tmp_path / "static")), "./none"):
        with pytest.raises(UserError, match=name):
            adapt(replace(config, models=(config.models[0], name), output=tmp_path / "run"))
        assert not (tmp_path / "run").exists()
        monkeypatch.setattr("isospace.training.prepare.load_corpus", None)  # a missing one: unread


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--models", "minilm"], "two or more"),
        (["--models", "minilm", "minilm"], "different"),
        (["--models", "minilm", "b", "--model", "c"], "--model"),
        (["--models", "minilm", "b", "--queries-only"], "--queries-only"),
        (["--models", "minilm", "b", "--query-prompt", "query: "], "--query-prompt"),
        (["--queries-only", "--teacher", "base+bm25"], "--teacher"),
    ],
)
def test_settings_that_cannot_go_together_are_refused(tmp_path, capsys, options, words):
    assert main(["adapt", str(tmp_path), *options]) == 2
    assert words in capsys.readouterr().err
