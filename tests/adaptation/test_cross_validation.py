"""Small folders: every document judges once, by models that were made without it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from resumed import assert_same_weights, cut_short
from searches import short_search, write_documents

from isospace.adaptation import cross_validation, task
from isospace.adaptation.adapt import adapt
from isospace.adaptation.candidates import PAIR_MAPS
from isospace.adaptation.cross_validation import FOLDS, PAIRS_EACH, Folds
from isospace.adaptation.results import read_candidates
from isospace.cli import main
from isospace.config import DistillConfig
from isospace.corpus.corpus import load_corpus
from isospace.errors import Interrupted
from isospace.evaluation.benchmark import Benchmark
from isospace.evaluation.retrieval import RetrievalScores
from isospace.explore.session import Adapted
from isospace.export.distill import distill
from isospace.system.files import cache_folder
from isospace.system.progress import Silent
from isospace.training.compressing import measure_compression
from isospace.training.examples import Examples

DOCUMENTS = 80


@pytest.fixture(scope="module")
def config(toy_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    rows = write_documents(folder / "all.jsonl").read_text().splitlines()
    (folder / "docs.jsonl").write_text("\n".join(rows[:DOCUMENTS]))
    config = short_search(folder / "docs.jsonl", toy_model, folder / "run")
    return replace(config, text=replace(config.text, held_out=20), budget=(20_000, "tokens"))


@pytest.fixture(scope="module")
def trained():
    """The texts that the model of each part was trained on, once `finished` is made."""
    return []


@pytest.fixture(scope="module")
def finished(config, trained):
    train = cross_validation._train

    def noted(settings, states, data, *rest):
        trained.append({data.corpus[line] for line in data.corpus.train_rows.tolist()})
        train(settings, states, data, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_validation, "_train", noted)
        return adapt(config)


@pytest.fixture(scope="module")
def folds(config):
    corpus = load_corpus(config.text, cache_folder())
    found = Folds.divide(corpus, Benchmark.make(corpus), config.text.test_relation)
    assert found is not None
    return found


def test_the_command_corpus_shows_the_pairs(config, folds, capsys):
    [file] = config.text.corpus
    words = ["--title-column", "title", "--held-out", "20", "--model", config.model]
    words += ["--passage-words", "None", "--no-near-duplicates"]
    assert main(["corpus", file, *words]) == 0
    assert folds.described in capsys.readouterr().err


def test_every_document_judges_once_and_trains_in_all_other_parts(config, folds):
    rows = [json.loads(row) for row in Path(config.text.corpus[0]).read_text().splitlines()]
    assert set(folds.pairs.first) == {row["title"] for row in rows}
    assert max(np.unique(folds.pairs.group_numbers(), return_counts=True)[1]) <= PAIRS_EACH
    part_of = dict(zip(folds.pairs.first, folds.parts.tolist(), strict=True))
    sizes = np.bincount(folds.parts)
    assert len(sizes) == FOLDS
    assert sizes.max() - sizes.min() <= 2
    settings = replace(task.training_by(config, "pairs"), batch_size=16)
    for part, corpus in enumerate(folds.corpora):
        trained = set()
        for line in np.unique(Examples.from_corpus(settings, corpus).rows):
            trained.add(corpus[line])
        trained |= {corpus[line] for line in corpus.train_rows.tolist()}
        for row in rows:
            texts = row["text"].split("\n\n")
            there = [text in trained for text in (*texts, row["title"])]
            if part_of[row["title"]] == part:
                assert not any(there)
            else:
                assert all(there[:2])


def test_a_pair_looks_among_the_passages_of_its_own_part(folds):
    """What trained in the other parts is no fair competitor."""
    for part, pairs in enumerate(folds.of_part):
        own = np.array(folds.pairs.groups)[folds.parts == part].tolist()
        assert list(pairs.groups) == own
        assert set(pairs.among.groups) == set(own)
        assert len(pairs.among.texts) == 2 * len(set(own))
        assert set(pairs.second) <= set(pairs.among.texts)


def test_all_texts_of_the_parts_are_announced_to_an_endpoint(config, folds, monkeypatch):
    asked = []
    frozen = SimpleNamespace(is_frozen=True, expect=lambda texts, progress: asked.extend(texts))
    encoders = SimpleNamespace(encoder=frozen, fit_texts=(), too_few_pairs="")
    monkeypatch.setattr(task.CandidateEncoders, "load", lambda *_: encoders)
    task.load_base_model(task.load_task(config, Silent()), config.model, Silent())
    announced = {text for _, texts in asked for text in texts}
    for pairs in folds.of_part:
        assert {*pairs.first, *pairs.among.texts} <= announced


def test_the_ranks_of_all_parts_are_joined_in_the_order_of_the_pairs(folds):
    found = []
    for part, pairs in enumerate(folds.of_part):
        number = 1.0 + part + np.arange(len(pairs)) / 1000
        found.append(RetrievalScores(number, 9, "", np.stack([number, -number])))
    whole = folds.joined(found)
    for part in range(FOLDS):
        own = folds.parts == part
        assert whole.ranks[own].tolist() == found[part].ranks.tolist()
        assert whole.displacement[:, own].tolist() == found[part].displacement.tolist()


def test_the_verdict_is_of_all_documents(config, finished, trained):
    """Each part is judged by a model of the others."""
    assert len(trained) == FOLDS
    assert all(len(texts) == len(trained[0]) for texts in trained)
    assert len(set.intersection(*trained)) == 0
    verdict = finished.results.verdict
    # Of 64 pairs there are too few batches in four passes, of 32 or 16 there are enough.
    assert finished.run.config.batch_size < task.training_by(config, "pairs").batch_size
    assert finished.results.training.steps >= 10
    assert "cross-validated" in verdict.protocol
    assert finished.results.split
    searched = read_candidates(finished.run.folder)
    names = {one.kind for one in searched.candidates}
    assert names == {one.kind for one in [*PAIR_MAPS.before_training, *PAIR_MAPS.in_each_part]}
    if verdict.gain is not None:
        assert verdict.gain.groups == DOCUMENTS
        assert verdict.gain.candidates == 1
    assert not (finished.run.folder / "candidates").exists()


def test_explore_shows_the_passages_of_all_documents(config, finished):
    corpus = load_corpus(config.text, cache_folder())
    passages = {corpus[row] for row in corpus.passages}
    assert set(Adapted.open(str(finished.run.folder)).texts(Silent())) == passages


def test_what_is_measured_on_trained_text_says_so(finished, tmp_path):
    assert not finished.results.ships_base
    model, said = str(finished.run.folder), "on whose documents the model was trained"
    [forms] = measure_compression(model, progress=Silent())
    twin = distill(DistillConfig(model=model, output=tmp_path / "twin"), Silent())
    assert said in forms.tested_on
    assert said in twin.verdict


def test_a_kill_in_any_fold_goes_on_to_the_same_end(config, finished, tmp_path):
    config = replace(config, output=tmp_path / "stopped")
    with pytest.raises(Interrupted), cut_short(cross_validation, "_train", call=3):
        adapt(config)
    again = adapt(resume=config.output)
    assert again.results.verdict == finished.results.verdict
    assert_same_weights(again.run, finished.run)


def test_no_training_is_prepared_when_the_time_is_over(config, tmp_path, monkeypatch):
    monkeypatch.setattr("isospace.adaptation.adapt.seconds_per_token", lambda *_: 3600.0)
    monkeypatch.setattr("isospace.adaptation.fine_tune.Fit", None)
    found = adapt(replace(config, budget=(30, "minutes"), output=tmp_path / "run"))
    told = "a budget of 30 minutes is too little for measuring and fine-tuning"
    assert any(told in note for note in read_candidates(found.run.folder).notes)


@pytest.mark.exhaustive
def test_the_budget_that_is_named_is_enough(config, tmp_path):
    little = adapt(replace(config, budget=(100, "tokens"), output=tmp_path / "little"))
    assert little.results.training.steps == 0
    notes = read_candidates(little.run.folder).notes
    told = next(note for note in notes if "a budget of 100 tokens is too little for 10" in note)
    enough = float(re.findall(r"Give about ([\d,]+) ", told)[0].replace(",", ""))
    finished = adapt(replace(config, budget=(enough, "tokens"), output=tmp_path / "enough"))
    assert finished.results.training.steps == 10
