"""`adapt` with several base models: the best of them, whitened, is fine-tuned."""

from dataclasses import replace

import pytest
from prompted import load_again
from resumed import assert_same_weights, cut_short
from routed import write_static
from searches import small_search
from toy import write_toy_model

from isospace.adaptation import adapt as module
from isospace.adaptation.adapt import adapt
from isospace.adaptation.results import read_base_models, read_candidates
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


@pytest.fixture(scope="module")
def adapted(config):
    return adapt(config, progress=Silent())


def test_the_model_that_finds_most_validation_pairs_goes_on(config, adapted):
    compared = read_base_models(adapted.run.folder)
    assert [one.name for one in compared.models] == list(config.models)
    assert [one.dim for one in compared.models] == [48, 32]
    assert all(one.texts_per_second > 0 for one in compared.models)
    second, best = sorted(compared.models, key=lambda one: one.validation)
    assert compared.selected == best.name == adapted.run.config.model
    assert compared.gain.mean == pytest.approx(best.adapted - second.adapted)
    assert compared.gain.items == adapted.results.verdict.gain.items
    assert best.base == pytest.approx(adapted.results.base.pairs.mrr)
    closed_forms = [one.mrr for one in read_candidates(adapted.run.folder).candidates[:4]]
    assert best.validation == pytest.approx(max(closed_forms))
    assert compared.verdict in read_candidates(adapted.run.folder).notes
    assert load_again(adapted.model_folder).get_embedding_dimension() == best.dim
    page = write_report(collect([adapted.run.folder])).read_text(encoding="utf-8")
    assert all(one.name in page for one in compared.models)


@pytest.mark.exhaustive
def test_the_search_is_that_of_the_selected_model_alone(config, adapted, tmp_path):
    one = replace(config, models=(), model=adapted.run.config.model, output=tmp_path / "run")
    alone = adapt(one, progress=Silent())
    assert alone.results.verdict.gain == adapted.results.verdict.gain
    assert_same_weights(alone.run, adapted.run)


@pytest.mark.parametrize("at", ["compared", pytest.param("searched", marks=pytest.mark.exhaustive)])
def test_a_run_that_was_stopped_goes_on_to_the_same_end(config, adapted, tmp_path, monkeypatch, at):
    config = replace(config, output=tmp_path / "run")
    step, call = ("_closed_forms", 2) if at == "compared" else ("_search", 1)
    with pytest.raises(Interrupted), cut_short(module, step, call=call):
        adapt(config, progress=Silent())
    if at == "searched":  # the models that lost are not loaded again
        monkeypatch.setattr("isospace.adaptation.adapt.compare_base_models", None)
    again = adapt(resume=config.output, progress=Silent())
    compared = read_base_models(config.output)
    assert compared.selected == again.run.config.model == adapted.run.config.model
    assert compared.gain == read_base_models(adapted.run.folder).gain
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
