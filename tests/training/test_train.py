"""The main job on toy encoders: start to verdict, evaluations, documents, STS sets, bad input."""

import json
import logging
import math
import random
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from searches import paired, titled
from sentence_transformers import SentenceTransformer
from sts_files import write, write_senteval
from toy import WORDS, sentences, short_run, write_rows
from toy_decoder import write_toy_decoder

from isospace.cli import main
from isospace.config import CorpusConfig
from isospace.encoders.encoder import PROBES, Encoder
from isospace.encoders.loading import is_causal, load_encoder
from isospace.errors import Stopped, UserError
from isospace.evaluation import benchmark as benchmark_module
from isospace.evaluation.benchmark import HeldOutScores
from isospace.evaluation.other_text import gains_over, other_text_sentence
from isospace.evaluation.sts import PAPER_COLUMNS, evaluate_pairs, evaluate_sts, load_sts
from isospace.objectives import Iso, SimCSE
from isospace.search.index import SearchIndex
from isospace.system.lifecycle import random_state
from isospace.training import checkpoint
from isospace.training.batches import Order
from isospace.training.examples import Examples
from isospace.training.loop import Loop
from isospace.training.prepare import data_of, load_data
from isospace.training.results import read_results
from isospace.training.run import Run, run_of, selected_weight
from isospace.training.train import train


def test_a_run_from_start_to_verdict(config, finished_run):
    run = finished_run
    assert sorted(p.name for p in run.folder.iterdir()) == [
        "checkpoints", "config.json", "items.npz", "metrics.jsonl", "model", "results.json",
        "sample.npz",
    ]  # fmt: skip
    assert run.config == replace(config, output=run.config.output)
    results = read_results(run.results_path)
    assert results.training.choice.step == results.training.steps == 20
    assert [evaluation["step"] for evaluation in results.training.evaluations] == [0, 10, 20]
    assert "halves of held-out sentences" in results.verdict.protocol
    assert 100 < results.training.memory_mb < 100_000
    card = (run.model_folder / "README.md").read_text()
    assert f"Took {results.training.cost}" in card
    assert ("Tried, but not kept" in card) is results.ships_base
    assert (config.objective.paper.bibtex in card) is not results.ships_base
    for sentence in sentences(400):
        assert sentence not in card


def test_the_vectors_kept_are_those_of_the_base_and_the_saved_model(finished_run, encoder):
    sample = finished_run.sample
    assert len(sample.sentences) == 40  # the held-out tenth, which is too little to split
    assert set(sample.sentences) < set(sentences(400))
    base = encoder.embed(sample.sentences)
    assert np.allclose(sample.before, base, atol=2e-3)
    encoder.model.load_state_dict(load_file(finished_run.kept_weights))
    trained = encoder.embed(sample.sentences)
    assert np.allclose(sample.after, trained, atol=2e-3)
    assert not np.allclose(sample.before, sample.after, atol=2e-3)
    saved = load_encoder(str(finished_run.model_folder), device="cpu").embed(sample.sentences)
    assert np.allclose(saved, base if finished_run.results.ships_base else trained, atol=1e-6)
    assert finished_run.sample_path.stat().st_size < 20_000


def test_the_verdict_says_what_happened_elsewhere(config, finished_run):
    results = finished_run.results
    assert list(results.other_text) == ["docstrings", "definitions"]
    words = {name: found.gain for name, found in results.other_text.items()}
    assert results.summary.endswith(other_text_sentence(words))
    for found in results.other_text.values():
        assert found.gain.mean == pytest.approx(found.adapted - found.base)
        assert found.gain.changed > 0
    before, after = (finished_run.items(f"other_text_{state}") for state in ("before", "after"))
    assert gains_over([after], before) == words
    assert other_text_sentence(words) in (finished_run.model_folder / "README.md").read_text()


def test_the_callers_random_generators_are_left_as_they_were(config):
    torch.manual_seed(5)
    before = random_state()
    outcome = train(replace(config, budget=(32, "sentences")))
    assert np.array_equal(torch.get_rng_state(), before["torch"])
    outcome.run.results_path.unlink()
    train(resume=str(outcome.run.folder))  # goes on from the checkpoint's own state
    now = random_state()
    assert np.array_equal(now["torch"], before["torch"])
    assert (now["python"], now["numpy"]) == (before["python"], before["numpy"])


def test_the_start_is_kept_when_nothing_beats_it(config):
    """A learning rate that wrecks the encoder: the model is the base model, and the verdict says so."""
    outcome = train(replace(config, learning_rate=0.5, select="label-free"))
    assert outcome.results.training.choice.step == 0
    assert outcome.verdict.startswith("Keep the base model")
    assert outcome.results.training.choice.collapsed == (10, 20)
    assert "bibtex" not in (outcome.model_folder / "README.md").read_text()
    assert outcome.results.verdict.gain is None
    assert all(found.gain.mean == 0 for found in outcome.results.other_text.values())
    texts = sentences(10, seed=5)
    start = load_encoder(config.model, device="cpu").embed(texts)
    saved = load_encoder(str(outcome.model_folder), device="cpu").embed(texts)
    assert np.allclose(saved, start, atol=1e-6)


def test_own_pairs_decide_the_verdict_and_are_not_trained_on(config, tmp_path):
    texts = sentences(400)
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("\n".join(f"{a},{b}" for a, b in zip(texts[:50], texts[50:100], strict=True)))
    outcome = train(replace(config, pairs=pairs, budget=(32, "sentences")))
    assert "pairs.csv" in outcome.results.verdict.protocol
    assert outcome.results.base.pairs.queries == 50
    assert outcome.results.corpus.counts["read"] == 400
    assert outcome.results.corpus.sentences <= 300


@pytest.mark.parametrize(("timed", "really", "updates"), [(4, 1, 60), (1, 4, 15)])
def test_minutes_are_a_budget(config, monkeypatch, timed, really, updates):
    """Whatever the first updates seemed to take, but for a tenth."""
    monkeypatch.setattr("isospace.training.loop.Loop.seconds_per_step", lambda _: float(timed))
    note = Loop.note_update
    monkeypatch.setattr(Loop, "note_update", lambda loop, _: note(loop, float(really)))
    finished = train(replace(config, budget=(1, "minutes"), evaluations=2))
    assert 0.9 * updates <= finished.results.training.steps <= 1.1 * updates
    evaluated = [row["step"] for row in finished.run.evaluations()]
    assert evaluated[-1] == finished.results.training.steps
    rates = [row["learning_rate"] for row in finished.run.steps()]
    assert all(later < rate for rate, later in pairwise(rates))
    assert rates[-1] < 0.3 * config.learning_rate


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": CorpusConfig(corpus=("no.txt",))}, r"no\.txt"),
        ({"text": CorpusConfig(corpus=("few.txt",))}, "11 texts .*fewer than a batch of 16"),
        ({"pairs": Path("bad.csv")}, r"bad\.csv"),
        ({"select": "labels"}, "`data`"),
        ({"output": Path("taken")}, "exists already"),
    ],
)
def test_bad_input_is_refused_before_loading(config, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    Path("few.txt").write_text("\n".join(sentences(12)))
    Path("bad.csv").write_text("only one column\n")
    Path("taken").mkdir()
    Path("taken", "thesis.txt").write_text("precious")
    monkeypatch.setattr("isospace.training.prepare.load_encoder", lambda *_: pytest.fail("loaded"))
    with pytest.raises(UserError, match=message):
        train(replace(config, **changes))
    assert not config.output.exists()
    assert [path.name for path in Path("taken").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["FSDP", "DEEPSPEED"])
def test_settings_of_accelerate_that_divide_the_weights_are_refused(config, monkeypatch, name):
    monkeypatch.setenv(f"ACCELERATE_USE_{name}", "true")
    with pytest.raises(UserError, match=f"asks for {name}"):
        train(config)
    assert not config.output.exists()


def test_pairs_of_documents_train_and_say_what_judges(on_documents, tmp_path, caplog):
    settings = {"objective": Iso(), "views": "both", "pass_tokens": 400}
    config = replace(on_documents, budget=(4_000, "tokens"), output=tmp_path / "run", **settings)
    with caplog.at_level(logging.INFO, "isospace"):
        results = train(config).results
    pairs = "108 single texts, 108 heading-section, 108 first-rest, 108 crops"
    assert f"relations {pairs}; test pairs: title-passage" in caplog.text
    assert "95 % up to" in caplog.text
    assert "title-passage" in results.verdict.protocol
    # A pair has 30 tokens or so.
    assert 4_000 // (16 * 60) <= results.training.steps <= 4_000 // (16 * 20)
    assert Run(config.output).config.max_length is None


def test_a_decoder_trains_adapters_for_its_last_token(config, tmp_path):
    model = write_toy_decoder(tmp_path / "model", "qwen3", padding_side="left")
    settings = {"model": str(model), "objective": SimCSE(), "dropout": 0.1, "lora": 4}
    run = train(replace(config, **settings)).run
    encoder = load_encoder(str(run.folder), device="cpu")
    start = load_encoder(run.config.model, device="cpu")
    texts = sentences(30, seed=7)
    assert is_causal(start)
    assert is_causal(encoder)
    assert encoder.pooling == "lasttoken" == run.finished.training.pooling
    assert np.abs(encoder.embed(texts) - start.embed(texts)).max() > 1e-3
    theirs = SentenceTransformer(str(run.model_folder), device="cpu").encode(texts)
    np.testing.assert_allclose(encoder.embed(texts), theirs, atol=1e-6)


def test_the_interval_is_for_all_evaluations_and_the_gain_is_less(config, tmp_path, monkeypatch):
    """40 held-out examples are too few to split; of four evaluations one has collapsed."""
    text = replace(paired(tmp_path / "pairs.jsonl"), held_out=40)
    config = replace(config, text=text, objective=SimCSE(head="none"), views="pairs", evaluations=4)
    module = "isospace.training.results"
    monkeypatch.setattr(f"{module}.is_collapsed", lambda evaluation, _: evaluation["step"] == 5)
    results = train(replace(config, select="label-free")).results
    gain = results.verdict.gain
    assert not results.split
    assert results.training.choice.step > 0
    assert results.training.choice.collapsed == (5,)
    assert (gain.items, gain.candidates) == (40, 3)
    assert "best of 3 tried" in results.verdict.text
    seen = results.adapted.pairs.mrr - results.base.pairs.mrr
    assert gain.low <= gain.mean <= seen <= gain.high
    # With the rule "last" the same pairs judge, and nothing was chosen by them.
    plain = train(replace(config, select="last", output=tmp_path / "last")).results.verdict.gain
    assert plain.candidates == 1


@pytest.mark.parametrize(
    ("select", "updates", "evaluations", "seen_at"),
    [("label-free", 20, 20, 1), ("last", 1, 1, 1), ("last", 20, 1, 2)],
)
def test_what_is_no_number_ends_the_run(config, select, updates, evaluations, seen_at):
    """An evaluation may come first to see what an update of finite loss and gradient has done."""
    settings = {"evaluations": evaluations, "budget": (16 * updates, "sentences")}
    message = rf"diverged at step {seen_at}: .* is nan.*`learning_rate`.*\(step 0\)"
    with pytest.raises(Stopped, match=message):
        train(replace(config, learning_rate=1e30, select=select, **settings))
    run = Run(config.output)
    state = checkpoint.load(run.last_checkpoint)
    assert state["step"] == 0
    assert all(value.isfinite().all() for value in state["encoder"].values())
    for line in run.metrics_path.read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_a_base_model_whose_vectors_are_no_numbers_is_refused(config, monkeypatch):
    measured = HeldOutScores({"pairs_mrr": math.nan}, None, None)
    monkeypatch.setattr("isospace.training.fit.run_evaluation", lambda *_: measured)
    with pytest.raises(UserError, match=r"`model` .*pairs_mrr of the base model is nan"):
        train(config)


def test_an_evaluation_of_a_start_is_what_it_is_without_the_cache(config, monkeypatch, tmp_path):
    """Clean vectors of the base model are kept; a second run from it encodes none of them again."""
    monkeypatch.setenv("ISOSPACE_CACHE", str(tmp_path / "cache"))
    config = replace(config, select="last")
    first = train(replace(config, output=tmp_path / "first")).results.training.evaluations
    encoded = []
    embed = Encoder.embed

    def counted(encoder, texts, dropout=0.0, *rest, **options):
        if tuple(texts) != PROBES:  # by which the base model is tried
            encoded.append(dropout == 0.0)
        return embed(encoder, texts, dropout, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "embed", counted)
        patch.setattr("isospace.training.fit.Fit._train", lambda *_: pytest.fail("far enough"))
        with pytest.raises(pytest.fail.Exception, match="far enough"):
            train(replace(config, output=tmp_path / "second"))
    assert encoded
    assert not any(encoded)
    monkeypatch.setattr("isospace.training.fit.cache_folder", lambda: None)
    assert train(replace(config, output=tmp_path / "third")).results.training.evaluations == first


def test_a_run_on_documents_keeps_the_weight_of_bm25(toy_model, tmp_path, monkeypatch, caplog):
    rng, texts = random.Random(0), sentences(4200)
    rows = [
        {"title": " ".join(rng.choices(WORDS, k=6)), "text": "\n\n".join(texts[i : i + 3])}
        for i in range(0, 4200, 3)
    ]
    file = write_rows(tmp_path / "docs.jsonl", rows)
    config = short_run(toy_model, file, tmp_path / "run")
    budget = (32, "sentences")
    config = replace(config, text=titled(file), budget=budget, select="last", evaluations=1)
    asked = []

    def chosen(encode, pairs):
        asked.append(pairs)
        return 1.5

    monkeypatch.setattr(benchmark_module, "select_weight", chosen)
    with caplog.at_level("INFO", "isospace"):
        finished = train(config)
    results, data = finished.results, load_data(config)
    [choosing] = asked
    assert set(choosing).isdisjoint(data.benchmark.pairs)
    assert len(choosing) >= 100
    assert results.base.pairs.candidates == len(data.corpus.held_out())
    for state in (results.base, results.adapted):
        assert state.with_bm25.weight == 1.5
    assert list(results.with_bm25) == ["BM25", "base model + BM25", "adapted + BM25"]
    gain = results.with_bm25["base model + BM25"].mean
    assert gain == pytest.approx(results.base.with_bm25.hybrid.mrr - results.base.pairs.mrr)
    assert results.recommendation in caplog.text
    assert "| this model + BM25 |" in (finished.model_folder / "README.md").read_text()

    # An index of its model searches by it, unless another is asked for.
    for model in (finished.run.folder, finished.model_folder):
        assert selected_weight(str(model)) == 1.5
    file, to = tmp_path / "texts.txt", tmp_path / "index"
    file.write_text("\n".join(sentences(30)))
    assert main(["index", str(file), "--to", str(to), "--model", str(model), "--json"]) == 0
    assert "weight 1.5" in SearchIndex.open(to).search("the cat", hybrid=True).protocol
    assert selected_weight(config.model) is selected_weight("minilm") is None
    other = shutil.copytree(finished.model_folder, finished.run.folder / "whitened")
    assert run_of(str(other)) is None


def test_an_epoch_is_a_pass_though_batches_keep_alike_pairs_apart(toy_model, tmp_path):
    """Where a few titles have most of the pairs all others were seen several times."""
    texts = sentences(1000, seed=5)
    titles = texts[:100] + [text for text in texts[100:105] for _ in range(80)]
    rows = [{"a": title, "b": text} for title, text in zip(titles, texts[500:], strict=True)]
    file = write_rows(tmp_path / "pairs.jsonl", rows)
    text = CorpusConfig(corpus=(str(file),), columns=("a", "b"))
    settings = {"views": "pairs", "budget": (1.0, "epochs"), "batch_size": 8, "evaluations": 1}
    run = short_run(toy_model, file, tmp_path / "run")
    config = replace(run, text=text, objective=SimCSE(head="none"), **settings)
    examples = Examples.from_corpus(config, load_data(config).corpus)
    a_pass = Order(examples, 8, config.seed).per_epoch
    assert train(config).results.training.steps == a_pass < len(examples) // 8


@pytest.fixture
def sts_sets(tmp_path):
    """The sets of sts_files.py, with dev sets that an encoder does not score as it scores test."""
    write_senteval(tmp_path / "sts")
    pairs = [("the cat sat", "a dog runs"), ("red tree", "old tree"), ("a file", "blue river")]
    rows = zip(range(3), pairs, (4.0, 1.0, 3.0), strict=True)
    lines = [
        (f"g\tf\t2012\t1\t{g}\t{a}\t{b}\n", f"{i}\t{a}\t{b}\t{g}\tX\r\n") for i, (a, b), g in rows
    ]
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\r\n"
    write(tmp_path / "sts/STS/STSBenchmark/sts-dev.csv", "".join(line for line, _ in lines))
    write(tmp_path / "sts/SICK/SICK_trial.txt", header + "".join(line for _, line in lines))
    return tmp_path / "sts"


@pytest.mark.parametrize("labels", ["stsb-dev", "sickr-dev"])
def test_dev_chooses_and_test_is_scored(config, sts_sets, labels):
    task = {"stsb-dev": "STSBenchmark", "sickr-dev": "SICKRelatedness"}[labels]
    by_labels = {"data": str(sts_sets), "select": "labels", "labels": labels}
    outcome = train(replace(config, precision="float32", **by_labels))
    sets, embed = load_sts(sts_sets), load_encoder(config.model).embed
    dev, test = (evaluate_pairs(embed, sets[task].subsets[split]) for split in ("dev", "test"))
    assert abs(dev - test) > 0.1
    start, *later = outcome.results.training.evaluations
    assert start["labels_spearman"] == pytest.approx(dev)
    best = max((start, *later), key=lambda evaluation: evaluation["labels_spearman"])
    assert outcome.results.training.choice.step == best["step"]
    scored = outcome.results.base.sts.paper_row
    only_test = {name: one.test_only() for name, one in sets.items()}
    assert scored == pytest.approx(evaluate_sts(embed, only_test).paper_row(), nan_ok=True)
    gold = outcome.run.items("gold")
    assert list(gold) == list(PAPER_COLUMNS.values())
    np.testing.assert_array_equal(gold[PAPER_COLUMNS[task]], sets[task].subsets["test"].gold)
    assert outcome.results.labels == labels
    data, same = data_of(outcome.run)  # without the sets, which may be elsewhere by now
    assert same
    assert data.benchmark.pairs_digest() == outcome.results.pairs
