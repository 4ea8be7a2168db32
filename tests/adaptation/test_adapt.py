"""The ladder: what is tried, taken, judged and written."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from ladders import short_ladder, write_documents
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from toy import sentences, write_toy_cross_encoder

from isospace.adaptation import adapt as adapt_module
from isospace.adaptation.adapt import adapt
from isospace.adaptation.adapt_config import AdaptConfig
from isospace.adaptation.results import read_ladder
from isospace.adaptation.states import PAIR_MAPS, START, TEXT_MAPS, Kind, State
from isospace.adaptation.times import Times
from isospace.cli import main
from isospace.config import CorpusConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import LADDER, load_encoder, state_hash
from isospace.errors import Interrupted, TooLittle, UserError
from isospace.evaluation.benchmark import Benchmark
from isospace.evaluation.elsewhere import Elsewhere
from isospace.evaluation.retrieval import evaluate_retrieval
from isospace.evaluation.scores import GAIN, table_rows
from isospace.objectives.base import View
from isospace.report.ladder import _marks
from isospace.report.run_set import collect
from isospace.report.write import write_report
from isospace.statistics.verdict import VerdictKind
from isospace.training import fit as fit_module
from isospace.training.fit import evaluation_steps
from isospace.training.loop import Diverged
from isospace.training.prepare import load_data
from isospace.training.results import read_results
from isospace.training.run import Run, chosen_weight
from isospace.training.train import train

CLEAN = View(dropout=0.0)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
UNKNOWN = str.maketrans(LETTERS, "ぁぃぅぇぉかきくけこさしすせそたちつてとなにぬねのは")
"""Turns words into such as no tokenizer of these tests has."""


@pytest.fixture(scope="module")
def config(toy_model, tmp_path_factory) -> AdaptConfig:
    documents = write_documents(tmp_path_factory.mktemp("documents") / "docs.jsonl")
    return short_ladder(documents, toy_model, tmp_path_factory.mktemp("ladder") / "run")


@pytest.fixture(scope="module")
def climbed(config):
    return adapt(config)


def test_rungs_stand_in_order_and_one_is_taken(climbed):
    ladder = read_ladder(climbed.run.folder)
    names = [rung.name for rung in ladder.rungs]
    assert names == [
        "start",
        "whitened by pairs",
        "trained",
        "merged",
        "trained, then whitened by pairs",
    ]
    best = max(ladder.tried, key=lambda one: one.mrr)
    assert ladder.chosen.words == best.words
    assert [rung.chosen for rung in ladder.rungs].count(True) == 1
    merged = [one for one in ladder.tried if one.kind == "merged"]
    assert 1 <= len(merged) <= 3
    assert len(ladder.tried) == 2 + 2 * len(PAIR_MAPS) + len(merged)
    assert ladder.rungs[0].gain is None
    assert not (climbed.run.folder / "rungs").exists()
    assert "definitions" in ladder.chosen.elsewhere


def test_what_is_written_is_what_was_judged(climbed, config):
    """The run's results, its model and the ladder say the same, on pairs that chose nothing."""
    ladder, results = read_ladder(climbed.run.folder), climbed.results
    pairs = load_data(climbed.run.config).benchmark.pairs
    model = load_encoder(str(climbed.model_folder))
    again = evaluate_retrieval(model.embed, pairs).mrr
    assert results.result.pairs.mrr == pytest.approx(again, abs=1e-4)
    seen = results.result.pairs.mrr - results.start.pairs.mrr
    assert results.verdict.gain.mean <= seen + 1e-9  # less what choosing by the same pairs adds
    assert ladder.chosen.gain.mean == pytest.approx(ladder.chosen.mrr - ladder.rungs[0].mrr)
    assert results.made == ladder.chosen.words
    assert "Elsewhere: " in results.verdict.text
    assert "definitions " in results.verdict.text
    texts = sentences(5)
    theirs = SentenceTransformer(str(climbed.model_folder)).encode(texts)
    assert np.allclose(theirs, model.embed(texts), atol=1e-5)
    assert chosen_weight(str(climbed.run.folder)) == results.start.beside.weight
    card = (climbed.model_folder / "README.md").read_text(encoding="utf-8")
    assert results.verdict.text in card
    assert results.kept in card


def test_what_stands_beside_the_start_has_its_interval(climbed):
    """On the pairs that choose beside the rungs, on those that judge beside the verdict."""
    ladder, results = read_ladder(climbed.run.folder), climbed.results
    assert list(ladder.beside_gains) == list(ladder.beside) == ["BM25", "start + BM25"]
    for name, found in ladder.beside_gains.items():
        assert found.mean == pytest.approx(ladder.beside[name] - ladder.rungs[0].mrr)
        assert found.low < found.mean < found.high
        assert (found.items, found.groups) == (
            ladder.chosen.gain.items,
            ladder.chosen.gain.groups,
        )
    rows = {row[""]: row for row in ladder.rows()}
    assert [name for name, row in rows.items() if not row["gain"]] == ["start"]
    assert rows["start + BM25"]["gain"] == ladder.beside_gains["start + BM25"].points
    judged, start = results.over_start("taken"), results.start.pairs.mrr
    assert judged.keys() == {"BM25", "start + BM25", "taken", "taken + BM25"}
    assert judged["taken"] == results.verdict.gain
    for name, scores in (
        ("BM25", results.start.beside.bm25),
        ("start + BM25", results.start.beside.fused),
        ("taken + BM25", results.result.beside.fused),
    ):
        assert judged[name].mean == pytest.approx(scores.mrr - start)
        assert judged[name].groups == results.verdict.gain.groups
    card = (climbed.model_folder / "README.md").read_text(encoding="utf-8")
    cells = ("", judged["taken"].points, judged["BM25"].points, judged["taken + BM25"].points)
    assert f"| {GAIN} | {' | '.join(cells)} |" in card


def test_a_ladder_of_the_first_format_has_rows_without_intervals(climbed, tmp_path):
    content = json.loads((climbed.run.folder / "ladder.json").read_text())
    del content["beside_gains"], content["sha256"]
    (tmp_path / "ladder.json").write_text(json.dumps({**content, "format": 1}))
    ladder = read_ladder(tmp_path)
    assert ladder == replace(read_ladder(climbed.run.folder), beside_gains={})
    rows = {row[""]: row for row in ladder.rows()}
    assert "gain" not in rows["BM25"]
    assert rows["trained"]["gain"]
    marks = {mark["name"]: mark for mark in _marks(ladder)}
    assert "low" not in marks["BM25"]
    assert "low" in marks["trained"]


def test_archived_ladders_are_read():
    """Of before there were gains over the start beside BM25, too."""
    archives = sorted((Path(__file__).parents[2] / "docs" / "results").glob("*/*/adapt*.tar.xz"))
    assert archives
    for archive in archives:
        with tarfile.open(archive) as file:
            [name] = [name for name in file.getnames() if name.endswith("/results.json")]
            content = file.extractfile(name).read()
        with TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            path.write_bytes(content)
            results = read_results(path)
        older = json.loads(content)["format"] < 7
        rows = table_rows("", {"start": results.start}, results.over_start())
        assert [GAIN in row for row in rows] == [not older] * 3


def test_queries_that_changed_most_are_told_with_what_stood_first(climbed):
    ladder = read_ladder(climbed.run.folder)
    assert len(ladder.better) == 10
    for one in ladder.better:
        assert one.ranks[1] < one.ranks[0]
        assert (one.right in one.first[1]) == (one.ranks[1] <= 3)
    for one in ladder.worse:
        assert one.ranks[1] > one.ranks[0]


def test_a_ladder_that_was_stopped_goes_on_to_the_same_end(config, climbed, monkeypatch):
    config = replace(config, output=config.output.with_name("stopped"))
    train = fit_module.Fit._train
    with monkeypatch.context() as patch:

        def stopped(fit, planned):
            train(fit, planned)
            raise KeyboardInterrupt

        patch.setattr(fit_module.Fit, "_train", stopped)
        with pytest.raises(Interrupted, match="adapt `resume`"):
            adapt(config)
    before = Times(config.output / "rungs", 0.0).rungs
    assert before["trained"] > 0
    again = adapt(resume=config.output)
    ladder = read_ladder(config.output)
    assert all(rung.seconds > before.get(rung.name, 0.0) for rung in ladder.rungs)
    assert ladder.seconds > sum(rung.seconds for rung in ladder.rungs)
    assert again.results.seconds == pytest.approx(ladder.seconds, abs=5)
    assert again.results.verdict.gain == climbed.results.verdict.gain
    assert_same_weights(again.run, climbed.run)
    assert adapt(resume=config.output).results == again.results
    shutil.rmtree(again.run.model_folder)
    assert_same_weights(adapt(resume=config.output).run, climbed.run)


def assert_same_weights(one: Run, other: Run) -> None:
    ours, theirs = (load_file(run.model_folder / "model.safetensors") for run in (one, other))
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(theirs[name]) for name in ours)


def test_nothing_is_taken_that_loses_too_much_elsewhere(config, monkeypatch):
    """All but the start lose a tenth of what the choosing part elsewhere measures."""
    measure = Elsewhere.measure
    starts = []

    def worse(self, encode, part="judge", measured=None):
        found = measure(self, encode, part, measured)
        if part == "choose":
            starts.append(found)
            if len(starts) > 1:
                return {
                    name: replace(scores, by_seed=starts[0][name].by_seed - 0.1)
                    for name, scores in found.items()
                }
        return found

    monkeypatch.setattr(Elsewhere, "measure", worse)
    config = replace(config, output=config.output.with_name("harmful"), may_lose=5)
    finished = adapt(config)
    ladder = read_ladder(finished.run.folder)
    assert finished.results.verdict.kind is VerdictKind.KEEP_START
    assert "loses less than 5 points elsewhere" in finished.results.verdict.text
    assert [one.allowed for one in ladder.tried] == [True] + [False] * (len(ladder.tried) - 1)
    assert ladder.chosen.name == "start"
    assert list(ladder.rows()[0])[-2:] == ["definitions, validation", "taken"]
    assert ladder.better == ladder.worse == ()
    texts = sentences(5)
    start = load_encoder(config.model)
    assert np.allclose(
        SentenceTransformer(str(finished.model_folder)).encode(texts), start.embed(texts), atol=1e-5
    )


def test_a_gain_that_is_not_shown_is_no_reason_for_another_model(
    config, climbed, monkeypatch, caplog
):
    caplog.set_level("INFO")
    judge = Benchmark.verdict

    def unsure(*args):
        found = judge(*args)
        said = f"Cannot tell: {found.text.partition(': ')[2]}"
        return replace(found, kind=VerdictKind.CANNOT_TELL, text=said)

    monkeypatch.setattr(Benchmark, "verdict", unsure)
    finished = adapt(replace(config, output=config.output.with_name("unsure")))
    assert finished.results.verdict.kind is VerdictKind.KEEP_START
    assert finished.results.verdict.text.startswith("Keep the start: cannot tell: +")
    assert finished.results.verdict.gain == climbed.results.verdict.gain
    told, start = finished.results.beside, climbed.results.start
    assert GAIN in caplog.text
    assert finished.results.over_start("taken")["taken + BM25"].points in caplog.text
    assert re.match(
        r"(Plain BM25 finds (more|less) than|Nothing tells plain BM25 and) the start", told.text
    )
    assert "result" not in told.text
    assert told.gains["BM25"].mean == pytest.approx(start.beside.bm25.mrr - start.pairs.mrr)
    if told.gains["result + BM25"].low > 0:
        assert "what the ladder had taken + BM25 finds more than the start" in told.text
    words = read_ladder(finished.run.folder).chosen.words
    because = f"the start, because of the verdict; the ladder had taken: {words}"
    assert finished.results.kept == because
    texts = sentences(5)
    shipped = SentenceTransformer(str(finished.model_folder)).encode(texts)
    assert np.allclose(shipped, load_encoder(config.model).embed(texts), atol=1e-5)


def test_without_time_there_is_no_training_and_it_is_said(config):
    output = config.output.with_name("short")
    finished = adapt(replace(config, budget=(100, "tokens"), seeds=2, output=output))
    assert not (output / "seeds").exists()
    ladder = read_ladder(finished.run.folder)
    assert {rung.name for rung in ladder.rungs}.isdisjoint({"trained", "merged"})
    assert "Nothing was trained: a budget of 100 tokens is too little for 10" in ladder.story[0]
    assert re.search(r"about [\d,]+ would do\.$", ladder.story[0])
    assert finished.results.steps == finished.results.model_step == 0
    card = (finished.model_folder / "README.md").read_text()
    assert f"Made of the start's weights: {ladder.chosen.words}" in card
    assert "Updates" not in card
    assert "bibtex" not in card


def test_a_ladder_that_goes_on_says_why_rungs_are_missing(config, monkeypatch):
    config = replace(config, budget=(100, "tokens"), output=config.output.with_name("went-on"))
    with monkeypatch.context() as patch:

        def stopped(*_):
            raise KeyboardInterrupt

        patch.setattr("isospace.adaptation.adapt.run_results", stopped)
        with pytest.raises(Interrupted):
            adapt(config)
    adapt(resume=config.output)
    assert "Nothing was trained" in read_ladder(config.output).story[0]


def test_an_evaluation_that_is_no_number_ends_a_training(config, monkeypatch):
    evaluate = fit_module.run_evaluation
    measured = []

    def last_is_none(*arguments):
        measured.append(evaluate(*arguments))
        return {**measured[-1], "pairs_loss": float("nan") if len(measured) > 2 else 1.0}

    monkeypatch.setattr(fit_module, "run_evaluation", last_is_none)
    finished = adapt(replace(config, output=config.output.with_name("no-number")))
    assert "diverged at update" in read_ladder(finished.run.folder).story[0]
    assert len(Run(finished.run.folder).finished.evaluations) == 2


def test_where_the_pairs_choose_too_every_evaluation_is_a_candidate(config, monkeypatch):
    # Trainings are measured on some of the pairs that rungs are measured on.
    monkeypatch.setattr("isospace.evaluation.held_out.PAIRS", 50)
    monkeypatch.setattr(adapt_module.Folds, "of", lambda *_: None)  # as of fewer documents
    few = replace(config.text, held_out=200)
    finished = adapt(replace(config, text=few, output=config.output.with_name("few")))
    results, ladder = finished.results, read_ladder(finished.run.folder)
    assert not results.split
    evaluations = [
        e["step"] for e in results.evaluations if e["step"] not in (0, results.choice.step)
    ]
    assert evaluations
    assert results.verdict.gain.candidates == len(ladder.tried) - 1 + len(evaluations)
    assert "tried)" in results.verdict.text


def test_what_is_interrupted_while_it_reads_has_begun_no_ladder(config, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("isospace.adaptation.adapt.load_data", stop)
    with pytest.raises(Interrupted, match="no ladder was begun"):
        adapt(replace(config, output=config.output.with_name("unread")))


def test_a_training_that_diverges_is_told_and_the_ladder_goes_on(config, monkeypatch):
    def diverging(*_):
        raise Diverged(7, "info_nce", float("nan"))

    monkeypatch.setattr(fit_module.Fit, "_train", diverging)
    finished = adapt(replace(config, output=config.output.with_name("diverged")))
    ladder = read_ladder(finished.run.folder)
    assert "diverged at update 7" in ladder.story[0]
    assert "trained" not in [rung.name for rung in ladder.rungs]


def test_seeds_share_the_budget_and_their_weights_are_averaged(config, climbed):
    config = replace(
        config, seeds=2, budget=(100_000, "tokens"), output=config.output.with_name("seeds")
    )
    finished = adapt(config)
    runs = [finished.run, Run(config.output / "seeds" / "1")]
    assert [run.config.seed for run in runs] == [42, 43]
    [steps] = {run.steps()[-1]["step"] for run in runs}
    assert steps == climbed.results.steps  # of one training that has half of the budget
    assert not runs[1].results_path.exists()


def test_of_two_seeds_the_one_that_is_kept_is_told(config, monkeypatch):
    """The first collapses, the second does not: its step was told with the first's reasons."""
    evaluate = fit_module.run_evaluation

    def first_collapses(config, *rest, **named):
        found = evaluate(config, *rest, **named)
        return {**found, "effective_rank": 1.0} if config.seed == 42 and started else found

    started: list[bool] = []
    measure_start = fit_module.Fit.measure_start

    def begun(fit, *rest):
        started.clear()
        measure_start(fit, *rest)
        started.append(True)

    monkeypatch.setattr(fit_module, "run_evaluation", first_collapses)
    monkeypatch.setattr(fit_module.Fit, "measure_start", begun)
    output = config.output.with_name("collapsed")
    finished = adapt(replace(config, seeds=2, budget=(100_000, "tokens"), output=output))
    ladder, results = read_ladder(output), finished.results
    assert ladder.story[0].startswith("A training was left out: every checkpoint has collapsed")
    assert results.choice.step > 0
    assert results.choice.step in [line["step"] for line in results.evaluations]
    assert results.config == finished.run.config.to_dict()


def test_few_documents_train_in_smaller_batches(toy_model, tmp_path):
    rows = write_documents(tmp_path / "all.jsonl").read_text().splitlines()
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join(rows[:60]))
    config = short_ladder(few, toy_model, tmp_path / "run")
    finished = adapt(replace(config, text=replace(config.text, held_out=20)))
    story = read_ladder(finished.run.folder).story
    size = finished.run.config.batch_size
    assert size in (16, 32)
    assert f"Batches are of {size} pairs, as the text makes too few larger ones." in story
    assert finished.results.steps > 0


def test_a_long_training_is_looked_at_early_too(config, tmp_path, monkeypatch):
    monkeypatch.setattr(adapt_module, "EARLIEST", 3)
    finished = adapt(replace(config, output=tmp_path / "run"))
    total = finished.run.steps()[-1]["step"]
    evaluated = [line["step"] for line in finished.run.metrics() if line["kind"] == "evaluation"]
    assert evaluated == [0, *sorted(evaluation_steps(int(total), 2, 3))]
    assert len(evaluated) > 3


@pytest.mark.parametrize("modules", ["as it is", "with a closing normalisation"])
def test_no_weights_encode_the_same_texts_twice(config, tmp_path, monkeypatch, modules):
    """The pairs that choose are those by which a training's last evaluation found it best."""
    if modules != "as it is":
        model = SentenceTransformer(config.model, device="cpu", local_files_only=True)
        model.append(Normalize())
        model.save(str(tmp_path / "model"))
        config = replace(config, model=str(tmp_path / "model"))
    encoded = []
    embed = Encoder.embed

    def noted(self, texts, view=CLEAN, *rest, side=None, **others):
        if view == CLEAN and len(texts) > 100:  # fewer are those that a speed is timed by
            encoded.append((state_hash(self.model), self.prompts.of(side), tuple(texts)))
        return embed(self, texts, view, *rest, side=side, **others)

    monkeypatch.setattr(Encoder, "embed", noted)
    adapt(replace(config, output=tmp_path / "run"))
    assert len({weights for weights, *_ in encoded}) >= 3
    assert len(set(encoded)) == len(encoded)


def test_sentences_train_by_dropout(toy_model, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(sentences(1500)), encoding="utf-8")
    text = CorpusConfig(corpus=(str(file),), near_duplicates=False)
    config = AdaptConfig(
        text=text, model=str(toy_model), budget=(30_000, "tokens"), output=tmp_path / "run"
    )
    assert adapt(config).run.config.views == "dropout"


@pytest.mark.parametrize(
    ("teacher", "variant", "mined"), [("start+bm25", "listnet", 0), ("cross", "listmle", 4)]
)
def test_a_teacher_is_followed(config, toy_model, tmp_path, teacher, variant, mined):
    if teacher == "cross":
        teacher = str(write_toy_cross_encoder(tmp_path / "cross", toy_model))
    budget = (100_000, "tokens")
    finished = adapt(replace(config, teacher=teacher, budget=budget, output=tmp_path / "run"))
    settings = finished.run.config
    assert (settings.objective.variant, settings.mined) == (variant, mined)
    assert "distillation" in finished.run.steps()[0]["terms"]
    assert "trained" in [rung.name for rung in read_ladder(finished.run.folder).rungs]


def test_a_teacher_that_cannot_teach_is_refused_before_anything_is_tried(
    config, toy_model, tmp_path
):
    (tmp_path / "lines.txt").write_text("no scores\n")
    (tmp_path / "others.csv").write_text("query,passage,score\nwho is it,nobody,1\nwho,me,2\n")
    cross = write_toy_cross_encoder(tmp_path / "cross", toy_model)
    for teacher, message in (
        (tmp_path / "nowhere/at/all", "not a folder"),
        (tmp_path / "lines.txt", "lines.txt: "),
        (tmp_path / "others.csv", "none of its 2 pairs is of texts that are trained on"),
        (f"start+bm25,{cross}", "is a cross-encoder.* name it alone$"),
        (f"{cross}+bm25", "is a cross-encoder.* name it alone$"),
    ):
        output = tmp_path / "run"
        with pytest.raises(UserError, match=message):
            adapt(replace(config, teacher=str(teacher), output=output))
        assert not output.exists()


def test_queries_of_a_file_train_too(config, tmp_path):
    file = tmp_path / "queries.txt"
    file.write_text("\n".join(sentences(40, seed=9)))
    budget = (30_000, "tokens")
    finished = adapt(replace(config, queries=file, budget=budget, output=tmp_path / "run"))
    assert finished.run.config.queries == file
    lines = tmp_path / "lines.txt"  # which have no pairs of their own
    lines.write_text("\n".join(sentences(400)))
    config = replace(config, text=CorpusConfig(corpus=(str(lines),)), queries=file, budget=budget)
    finished = adapt(replace(config, output=tmp_path / "lines"))
    assert finished.run.config.views == "both"  # the queries alone would leave the text unused
    assert not any("no pairs" in said for said in read_ladder(finished.run.folder).story)


def test_what_train_would_refuse_is_refused_before_anything_is_tried(config, tmp_path):
    (tmp_path / "glove.txt").write_text("the 0.1 0.2\ncat 0.3 0.4\n")
    [corpus] = config.text.corpus
    for changes, message in (
        ({"elsewhere": (corpus,)}, "`elsewhere` "),
        ({"model": f"glove:{tmp_path / 'glove.txt'}"}, "an average of word vectors has no dropout"),
    ):
        output = tmp_path / "run"
        with pytest.raises(UserError, match=message):
            adapt(replace(config, output=output, **changes))
        assert not output.exists()


@pytest.mark.parametrize(
    "changes",
    [{"elsewhere": ("none",)}, {"queries": Path("none.csv")}, {"model": "./none"}],
    ids=list,
)
def test_a_missing_file_is_refused_before_the_text_is_read(config, tmp_path, monkeypatch, changes):
    monkeypatch.setattr("isospace.training.prepare.load_corpus", None)
    with pytest.raises(UserError, match=r"none.*: (no such f|not a folder)"):
        adapt(replace(config, output=tmp_path / "run", **changes))


def test_too_little_text_keeps_the_start(toy_model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "ten.txt"
    file.write_text("\n".join(sentences(10)), encoding="utf-8")
    assert main(["adapt", str(file), "--model", str(toy_model)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Keep the start: --corpus ")
    assert main(["adapt", str(file), "--model", str(toy_model), "--json"]) == 0
    verdict = {"kind": "keep the start", "text": said.strip()}
    assert json.loads(capsys.readouterr().out) == {"verdict": verdict}
    assert not (tmp_path / "runs").exists()
    with pytest.raises(TooLittle):
        adapt(AdaptConfig(text=CorpusConfig(corpus=(str(file),)), model=str(toy_model)))


def test_too_few_pairs_of_texts_keep_the_start_without_advice_on_batches(
    toy_model, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "faq.csv"
    rows = [f"{q},{a}" for q, a in zip(sentences(10), sentences(10, seed=1), strict=True)]
    file.write_text("\n".join(["q,a", *rows]), encoding="utf-8")
    assert main(["adapt", str(file), "--columns", "q", "a", "--model", str(toy_model)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Keep the start: ")
    assert "fewer than a batch of 16" in said
    assert "--" not in said.replace("--corpus", "")
    assert not (tmp_path / "runs").exists()


def test_a_language_that_the_encoder_does_not_know_keeps_the_start_and_says_why(
    config, toy_model, tmp_path
):
    [documents] = config.text.corpus
    file = tmp_path / "unknown.jsonl"
    rows = map(json.loads, Path(documents).read_text().splitlines())
    turned = [{key: text.translate(UNKNOWN) for key, text in row.items()} for row in rows]
    file.write_text("\n".join(map(json.dumps, turned)))
    text = replace(config.text, corpus=(str(file),))
    budget = (30_000, "tokens")
    finished = adapt(replace(config, text=text, budget=budget, output=tmp_path / "run"))
    assert finished.results.verdict.kind is VerdictKind.KEEP_START
    story = read_ladder(finished.run.folder).story
    assert any("of the tokens are unknown to it" in sentence for sentence in story)


def test_text_that_is_all_the_same_to_the_encoder_is_no_traceback(config, tmp_path, capsys):
    """Unknown words, as many in each text: no map can be fitted on vectors without a difference."""
    file = tmp_path / "unknown.txt"
    words = (text.split()[:5] for text in sentences(900) if len(text.split()) >= 5)
    file.write_text("\n".join(" ".join(five).translate(UNKNOWN) for five in words))
    output = tmp_path / "out"
    assert main(["adapt", str(file), "--model", config.model, "--output", str(output)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Keep the start: {config.model}: to its tokenizer all of this text is")
    assert "100 % of the tokens are unknown to it" in said
    assert not output.exists()


def test_other_text_that_is_too_little_to_bound_what_is_lost_is_named(config, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("\n".join(sentences(900, seed=8)), encoding="utf-8")
    settings = replace(config, elsewhere=(str(other),), budget=(100, "tokens"))
    finished = adapt(replace(settings, output=tmp_path / "run"))
    story = read_ladder(finished.run.folder).story
    assert "What is lost on other.txt is measured and not bounded" in story[0]
    assert "other.txt" in finished.results.elsewhere


def test_a_few_long_rows_among_short_ones_are_no_pairs(config, tmp_path):
    """They are cut, so that there are relations, but of none as many pairs as train."""
    rows = [{"text": text} for text in sentences(300, seed=9)]
    rows += [{"text": " ".join(sentences(30, seed=10 + i))} for i in range(3)]
    texts = tmp_path / "rows.jsonl"
    texts.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    text = CorpusConfig(corpus=(str(texts),))
    config = replace(config, text=text, budget=(100, "tokens"))
    finished = adapt(replace(config, output=tmp_path / "run"))
    story = read_ladder(finished.run.folder).story
    assert story[0].startswith("Two dropout views of each text train, and no pairs: 0 pairs")
    assert finished.run.config.views == "dropout"
    queries = tmp_path / "queries.txt"
    queries.write_text("\n".join(sentences(20, seed=11)))
    finished = adapt(replace(config, queries=queries, output=tmp_path / "asked"))
    story = read_ladder(finished.run.folder).story
    assert story[0].startswith("Two dropout views of each text train, and of pairs the queries' a")
    assert finished.run.config.views == "both"


def test_refusals(config, climbed, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="settings of a new ladder or the folder"):
        adapt()
    with pytest.raises(UserError, match=r"exists already.*continue it with adapt `resume`"):
        adapt(replace(config, output=climbed.run.folder))
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(UserError, match=r"exists already. Give another folder$"):
        adapt(replace(config, output=tmp_path / "notes.txt"))
    (climbed.run.folder / LADDER).rename(tmp_path / LADDER)
    with pytest.raises(UserError, match="no ladder"):
        adapt(resume=climbed.run.folder)
    (tmp_path / LADDER).rename(climbed.run.folder / LADDER)
    with pytest.raises(UserError, match="a ladder; go on with it by adapt `resume`"):
        train(resume=climbed.run.folder)
    assert main(["adapt", "--resume", str(climbed.run.folder), "--seeds", "2"]) == 2
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="one process"):
        adapt(replace(config, output=tmp_path / "new"))


def test_the_best_of_a_kind_is_one_that_may_be_taken():
    mild, strong = State(0.25), State(0.75)
    kind, mrr = Kind("merged", (mild, strong)), {START: 0.5, mild: 0.6, strong: 0.7}
    assert kind.best(mrr, [START, mild, strong]) == strong
    assert kind.best(mrr, [START, mild]) == mild
    assert kind.best(mrr, [START]) == strong


def test_states_in_words():
    assert START.words == "the start"
    assert State(0.5).words == "0.5 of the way from the start's weights to the trained ones"
    words = {State(1.0, change).words for change in (*PAIR_MAPS, *TEXT_MAPS)}
    assert "the trained weights, whitened by pairs, power 0.75" in words
    assert "the trained weights, whitened by single texts, power 0.25" in words


def test_settings_go_through_json(config, tmp_path):
    path = tmp_path / "adapt.json"
    path.write_text(config.to_json())
    assert AdaptConfig.read(path) == config
    for content in (b"[]", b"{", b"\xff", b'{"seeds": 0}'):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"adapt\.json: "):
            AdaptConfig.read(path)


def test_the_page_begins_with_the_ladder(climbed):
    page = write_report(collect([climbed.run.folder])).read_text(encoding="utf-8")
    ladder = read_ladder(climbed.run.folder)
    assert page.index("The ladder") < page.index('id="curves"')
    for rung in ladder.rungs:
        gain = "" if rung.gain is None else f", gain {rung.gain.points}"
        value = 100 * rung.mrr
        assert f"{rung.name}: {value:.2f} ({rung.words}){gain}".replace("'", "&#39;") in (
            page.replace("'", "&#39;")
        )
    for gain in climbed.results.over_start().values():
        assert gain.points in page.replace("\N{NO-BREAK SPACE}", " ")
    # What selects and what judges have columns of their own names.
    assert '<th scope="col" class="number">validation MRR</th>' in page
    assert page.count("definitions, validation</th>") == 2
    for name, gain in ladder.beside_gains.items():
        assert f"{name}: {100 * ladder.beside[name]:.2f}, gain {gain.points}" in page
    for one in (*ladder.better, *ladder.worse):
        assert one.query in page
