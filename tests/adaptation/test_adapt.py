"""The search: what is tried, selected, tested and written."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from resumed import as_stopped, assert_same_weights, cut_short
from searches import small_search
from sentence_transformers import SentenceTransformer
from toy import sentences, write_toy_cross_encoder

from isospace.adaptation.adapt import adapt
from isospace.adaptation.candidates import (
    PAIR_MAPS,
    TEXT_MAPS,
    THROUGH,
    Candidate,
    CandidateEncoders,
)
from isospace.adaptation.cross_validation import Folds
from isospace.adaptation.results import CandidateScores, SearchResults, read_candidates
from isospace.adaptation.task import load_task
from isospace.cli import main
from isospace.config import AdaptConfig, CorpusConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, state_hash
from isospace.encoders.places import ADAPT_SETTINGS
from isospace.errors import Interrupted, UserError
from isospace.evaluation.benchmark import Benchmark
from isospace.evaluation.other_text import OtherText
from isospace.evaluation.retrieval import evaluate_retrieval
from isospace.operators.nearest import unit_rows
from isospace.report.run_set import collect
from isospace.report.write import write_report
from isospace.statistics.verdict import VerdictKind
from isospace.system.progress import Logged, Silent
from isospace.training import fit as fit_module
from isospace.training.prepare import load_data
from isospace.training.run import selected_weight
from isospace.training.step import Diverged
from isospace.training.train import train

CLOSED_FORMS, OF_TEXTS = (
    list(dict.fromkeys(one.kind for one in maps.before_training)) for maps in (PAIR_MAPS, TEXT_MAPS)
)


@pytest.fixture(scope="module")
def config(small_split, toy_model, tmp_path_factory):
    return small_search(tmp_path_factory.mktemp("search"), toy_model)


@pytest.fixture(scope="module")
def seen():
    """What `adapted` trained and encoded, once it is made."""
    return {"encoded": []}


@pytest.fixture(scope="module")
def adapted(config, seen):
    train, read = fit_module.Fit.train, CandidateEncoders.read_trained
    embed = Encoder.embed

    def begun(fit, updates, planned):
        seen["fit"] = fit
        seen["dense"] = {k: v.clone() for k, v in fit.encoder.model[-1].state_dict().items()}
        seen["vectors"] = embed(fit.encoder, sentences(20))
        train(fit, updates, planned)

    def kept(encoders, file):
        seen["wanted"] = encoders.encode(Candidate(0.0, THROUGH)).documents(sentences(20))
        seen["trained"] = read(encoders, file)
        return seen["trained"]

    def noted(self, texts, dropout=0.0, *rest, side=None, **others):
        if not dropout and len(texts) > 100:  # fewer are those that a speed is timed by
            weights, prompt = state_hash(self.model), self.prompts.for_side(side)
            seen["encoded"].append((weights, prompt, tuple(texts)))
        return embed(self, texts, dropout, *rest, side=side, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_module.Fit, "train", begun)
        patch.setattr(CandidateEncoders, "read_trained", kept)
        patch.setattr(Encoder, "embed", noted)
        return adapt(config)


def test_candidates_stand_in_order_and_one_is_selected(adapted):
    searched = read_candidates(adapted.run.folder)
    trained = [f"{one}, then whitened by pairs" for one in ("fine-tuned", "merged")]
    names = [one.kind for one in searched.best]
    assert names[: len(CLOSED_FORMS) + 2] == [*CLOSED_FORMS, *trained]
    assert searched.selected.name == max(searched.candidates, key=lambda one: one.mrr).name
    assert [one.selected for one in searched.best].count(True) == 1
    trained = [one for one in searched.candidates if "fine-tuned" in one.name]
    through = [one for one in trained if one.name.endswith(THROUGH.name)]
    assert through[0].kind == "fine-tuned, then whitened by pairs"
    assert 2 <= len(through) <= 4
    assert len(trained) == len(through) + len(PAIR_MAPS.tried) - 1
    assert len(searched.candidates) == 1 + len(PAIR_MAPS.tried) + len(trained)
    assert searched.base.gain is None
    assert not (adapted.run.folder / "candidates").exists()
    assert "definitions" in searched.selected.other_text
    assert len(searched.better) == 10
    for one in searched.better:  # the queries that changed most, with what stood first
        assert one.ranks[1] < one.ranks[0]
        assert (one.right in one.first[1]) == (one.ranks[1] <= 3)
    assert all(one.ranks[1] > one.ranks[0] for one in searched.worse)


def test_what_is_written_is_what_was_judged(adapted, config):
    """The run's results, its model and the candidates say the same, on pairs that chose nothing."""
    searched, results = read_candidates(adapted.run.folder), adapted.results
    pairs = load_data(adapted.run.config).benchmark.pairs
    model = load_encoder(str(adapted.model_folder))
    again = evaluate_retrieval(model.embed, pairs).mrr
    assert results.adapted.pairs.mrr == pytest.approx(again, abs=1e-4)
    seen = results.adapted.pairs.mrr - results.base.pairs.mrr
    assert results.verdict.gain.mean <= seen + 1e-9  # less what choosing by the same pairs adds
    assert searched.selected.gain.mean == pytest.approx(searched.selected.mrr - searched.base.mrr)
    assert results.candidate == searched.selected.name
    assert "definitions " in results.summary.partition("On other text: ")[2]
    texts = sentences(5)
    theirs = SentenceTransformer(str(adapted.model_folder)).encode(texts)
    assert np.allclose(theirs, model.embed(texts), atol=1e-5)
    assert selected_weight(str(adapted.run.folder)) == results.base.with_bm25.weight
    card = (adapted.model_folder / "README.md").read_text(encoding="utf-8")
    assert results.summary in card
    assert results.kept in card


def test_bm25_has_its_interval(adapted):
    searched, results = read_candidates(adapted.run.folder), adapted.results
    assert list(searched.baselines) == ["BM25", "base model + BM25"]
    for found in searched.baselines.values():
        assert found.low < found.mean < found.high
        assert found.groups == searched.selected.gain.groups
    gains, base = results.over_base("adapted"), results.base
    assert gains["adapted"] == results.verdict.gain
    for name, scores in (
        ("BM25", base.with_bm25.bm25),
        ("base model + BM25", base.with_bm25.hybrid),
        ("adapted + BM25", results.adapted.with_bm25.hybrid),
    ):
        assert gains[name].mean == pytest.approx(scores.mrr - base.pairs.mrr)
        assert gains[name].groups == results.verdict.gain.groups


def test_a_search_that_was_stopped_goes_on_to_the_same_end(config, adapted):
    config = replace(config, output=config.output.with_name("stopped"))
    stopped = cut_short(fit_module.Fit, "_train", before=False)
    with pytest.raises(Interrupted, match="adapt `resume`"), stopped:
        adapt(config)
    again = adapt(resume=config.output)
    searched = read_candidates(config.output)
    assert again.results.training.seconds == pytest.approx(searched.seconds, abs=5)
    assert again.results.verdict.gain == adapted.results.verdict.gain
    assert_same_weights(again.run, adapted.run)
    assert adapt(resume=config.output).results == again.results
    shutil.rmtree(again.run.model_folder)
    assert_same_weights(adapt(resume=config.output).run, adapted.run)


def test_training_goes_through_the_map_of_the_base_model_which_stays(config, adapted, seen):
    vectors, wanted = seen["vectors"], seen["wanted"]
    assert np.allclose(unit_rows(vectors), unit_rows(wanted), atol=1e-5)
    dense, tuned = seen["dense"], seen["fit"].encoder.model
    assert all(value.equal(dense[name]) for name, value in tuned[-1].state_dict().items())
    base = load_encoder(config.model).model.state_dict()
    assert seen["trained"].keys() == base.keys()
    assert any(not value.equal(base[name]) for name, value in seen["trained"].items())


def test_no_weights_encode_the_same_texts_twice(adapted, seen):
    """The validation pairs are those by which a training's last evaluation found it best."""
    assert len({weights for weights, *_ in seen["encoded"]}) >= 3
    assert len(set(seen["encoded"])) == len(seen["encoded"])


def test_nothing_is_taken_that_loses_too_much_elsewhere(config, tmp_path, monkeypatch):
    """All but the base model lose a tenth of what the choosing part elsewhere measures."""
    measure = OtherText.measure
    starts = []

    def worse(self, encode, part="test", measured=None):
        found = measure(self, encode, part, measured)
        if part == "validation":
            starts.append(found)
            if len(starts) > 1:
                lost = {name: one.by_seed - 0.1 for name, one in starts[0].items()}
                return {name: replace(found[name], by_seed=lost[name]) for name in found}
        return found

    monkeypatch.setattr(OtherText, "measure", worse)
    budget = (100, "tokens")
    finished = adapt(replace(config, output=tmp_path / "run", max_drop=5, budget=budget))
    searched = read_candidates(finished.run.folder)
    assert finished.results.verdict.kind is VerdictKind.KEEP_BASE
    assert "drops at most 5 points on other text" in finished.results.verdict.text
    first, *others = searched.candidates
    assert first.allowed
    assert not any(one.allowed for one in others)
    assert searched.selected.kind == "base model"
    assert searched.better == searched.worse == ()
    assert_ships_base(finished, config)


def assert_ships_base(finished, config):
    shipped = SentenceTransformer(str(finished.model_folder)).encode(sentences(5))
    assert np.allclose(shipped, load_encoder(config.model).embed(sentences(5)), atol=1e-5)


def test_a_gain_that_is_not_shown_is_no_reason_for_another_model(config, adapted, monkeypatch):
    judge = Benchmark.verdict

    def unsure(*args):
        found = judge(*args)
        said = f"Cannot tell: {found.text.partition(': ')[2]}"
        return replace(found, kind=VerdictKind.CANNOT_TELL, text=said)

    monkeypatch.setattr(Benchmark, "verdict", unsure)
    finished = adapt(resume=as_stopped(adapted.run, config.output.with_name("unsure")))
    assert finished.results.verdict.kind is VerdictKind.KEEP_BASE
    assert finished.results.verdict.text.startswith("Keep the base model: cannot tell: +")
    assert finished.results.verdict.gain == adapted.results.verdict.gain
    assert read_candidates(finished.run.folder).selected.name in finished.results.kept
    assert_ships_base(finished, config)


def test_without_time_there_is_no_training_and_it_is_said(config):
    output = config.output.with_name("short")
    finished = adapt(replace(config, budget=(100, "tokens"), output=output))
    searched = read_candidates(finished.run.folder)
    assert [one.kind for one in searched.best] == CLOSED_FORMS
    assert "Nothing was trained: a budget of 100 tokens is too little for 10" in searched.notes[0]
    assert re.search(r"Give about [\d,]+ tokens\.$", searched.notes[0])
    assert finished.results.training.steps == finished.results.model_step == 0
    card = (finished.model_folder / "README.md").read_text()
    assert f"Made of the base model's weights: {searched.selected.name}" in card
    assert "Updates" not in card
    assert "bibtex" not in card


def test_where_the_pairs_choose_too_every_evaluation_is_a_candidate(config, monkeypatch):
    # Trainings are measured on some of the pairs that candidates are measured on.
    monkeypatch.setattr("isospace.evaluation.benchmark.HELD_OUT_PAIRS", 50)
    monkeypatch.setattr(Folds, "divide", lambda *_: None)  # as of fewer documents
    few = replace(config.text, held_out=100)
    finished = adapt(replace(config, text=few, output=config.output.with_name("few")))
    results, searched = finished.results, read_candidates(finished.run.folder)
    assert not results.split
    evaluations = {e["step"] for e in results.training.evaluations}
    evaluations -= {0, results.training.choice.step}
    assert evaluations
    assert results.verdict.gain.candidates == len(searched.candidates) - 1 + len(evaluations)
    assert "tried)" in results.verdict.text


def test_a_training_that_diverges_is_told_and_the_search_goes_on(config, monkeypatch):
    diverged = Diverged(7, "info_nce", float("nan"))
    monkeypatch.setattr(fit_module.Fit, "_train", Mock(side_effect=diverged))
    finished = adapt(replace(config, output=config.output.with_name("diverged")))
    searched = read_candidates(finished.run.folder)
    assert "The training diverged at update 7" in searched.notes[0]
    assert [one.kind for one in searched.best] == CLOSED_FORMS


def test_sentences_train_by_dropout(toy_model, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(sentences(1500)), encoding="utf-8")
    text = CorpusConfig(corpus=(str(file),), near_duplicates=False)
    config = AdaptConfig(text=text, model=str(toy_model), output=tmp_path / "run")
    finished = adapt(replace(config, budget=(30_000, "tokens")))
    assert finished.run.config.views == "dropout"
    kinds = [one.kind for one in read_candidates(finished.run.folder).best]
    assert kinds[: len(OF_TEXTS) + 2] == [*OF_TEXTS, "fine-tuned", "merged"]


@pytest.mark.parametrize(
    ("teacher", "variant", "mined"),
    [
        pytest.param("base+bm25", "listnet", 0, marks=pytest.mark.exhaustive),
        ("cross", "listmle", 4),
    ],
)
def test_a_teacher_is_followed(config, toy_model, tmp_path, teacher, variant, mined):
    if teacher == "cross":
        teacher = str(write_toy_cross_encoder(tmp_path / "cross", toy_model))
    budget = (60_000, "tokens")
    finished = adapt(replace(config, teacher=teacher, budget=budget, output=tmp_path / "run"))
    settings = finished.run.config
    assert (settings.objective.variant, settings.mined) == (variant, mined)
    assert "distillation" in finished.run.steps()[0]["terms"]
    kinds = [one.kind for one in read_candidates(finished.run.folder).best]
    assert "fine-tuned, then whitened by pairs" in kinds


def test_bad_input_is_refused_before_anything_is_tried(config, tmp_path, monkeypatch):
    glove = tmp_path / "glove.txt"
    glove.write_text("the 0.1 0.2\ncat 0.3 0.4\n")
    output = tmp_path / "run"
    for changes, message in (
        ({"other_text": config.text.corpus}, "`other_text` "),
        ({"model": f"glove:{glove}"}, "`model` glove"),
        ({"teacher": "./none+bm25"}, "none: not a folder"),
    ):
        with pytest.raises(UserError, match=message):
            adapt(replace(config, output=output, **changes))
        assert not output.exists()
    monkeypatch.setattr("isospace.training.prepare.load_corpus", None)  # a missing file: unread
    for changes in ({"other_text": ("none",)}, {"queries": Path("none.csv")}, {"model": "./none"}):
        with pytest.raises(UserError, match=r"none.*: (no such f|not a folder)"):
            adapt(replace(config, output=output, **changes))
    assert not output.exists()


def test_text_that_is_all_the_same_to_the_encoder_is_no_traceback(config, tmp_path, capsys):
    """Unknown words, as many in each text: no map can be fitted on vectors without a difference."""
    file = tmp_path / "unknown.txt"
    unknown = {letter: letter + 0x2FE0 for letter in range(97, 123)}  # Hiragana
    words = (text.split()[:5] for text in sentences(900))
    file.write_text("\n".join(" ".join(five).translate(unknown) for five in words))
    output = tmp_path / "out"
    assert main(["adapt", str(file), "--model", config.model, "--output", str(output)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{config.model}: its tokenizer cannot tell these texts" in said
    assert "100 % of the tokens are unknown to it" in said
    assert not output.exists()


def test_a_few_long_rows_among_short_ones_are_no_pairs(config, tmp_path):
    """They are cut, so that there are relations, but of none as many pairs as train."""
    rows = [{"text": text} for text in sentences(300, seed=9)]
    rows += [{"text": " ".join(sentences(30, seed=10 + i))} for i in range(3)]
    texts, queries = tmp_path / "rows.jsonl", tmp_path / "queries.txt"
    texts.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    queries.write_text("\n".join(sentences(20, seed=11)))
    config = replace(config, text=CorpusConfig(corpus=(str(texts),)))
    for given, views in ((None, "dropout"), (queries, "both")):
        task = load_task(replace(config, queries=given), Silent())
        assert task.training.views == views
        assert "no pairs of the text: 0 pairs" in task.notes[0]


def test_the_limit_is_said_of_the_sets_that_have_it(config, caplog):
    with caplog.at_level("INFO"):
        load_task(config, Logged())
    assert "points on docstrings, definitions" in caplog.text


def test_refusals(config, adapted, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="settings of a new run or the folder"):
        adapt()
    with pytest.raises(UserError, match=r"exists already.*continue it with adapt `resume`"):
        adapt(replace(config, output=adapted.run.folder))
    settings = adapted.run.folder / ADAPT_SETTINGS
    kept = settings.read_bytes()
    for content in (b"[]", b"{", b"\xff", b'{"budget": 0}'):
        settings.write_bytes(content)
        with pytest.raises(UserError, match=r"adapt\.json: "):
            adapt(resume=adapted.run.folder)
    settings.unlink()
    with pytest.raises(UserError, match="a run of train"):
        adapt(resume=adapted.run.folder)
    settings.write_bytes(kept)
    with pytest.raises(UserError, match=r"a run of adapt. Continue it with adapt `resume`"):
        train(resume=adapted.run.folder)
    assert main(["adapt", "--resume", str(adapted.run.folder), "--seed", "2"]) == 2
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="one process"):
        adapt(replace(config, output=tmp_path / "new"))


@pytest.mark.parametrize(
    ("allowed", "best"),
    [((True, True), "strong"), ((True, False), "mild"), ((False,) * 2, "strong")],
)
def test_the_best_of_a_kind_is_one_that_may_be_selected(allowed, best):
    both = (
        CandidateScores(name, "merged", mrr, None, {}, may, False)
        for name, mrr, may in zip(("mild", "strong"), (0.6, 0.7), allowed, strict=True)
    )
    assert [one.name for one in SearchResults(tuple(both), {}).best] == [best]


def test_the_page_begins_with_the_candidates(adapted):
    page = write_report(collect([adapted.run.folder])).read_text(encoding="utf-8")
    searched = read_candidates(adapted.run.folder)
    assert page.index("Candidates") < page.index('id="curves"')
    for one in searched.best:
        gain = "" if one.gain is None else f", gain {one.gain.points}"
        said = f"{one.kind}: {100 * one.mrr:.2f} ({one.name}){gain}"
        assert said in page.replace("&#39;", "'")
    for name, gain in searched.baselines.items():
        assert f"{name}: {100 * (searched.base.mrr + gain.mean):.2f}, gain {gain.points}" in page
    for one in (*searched.better, *searched.worse):
        assert one.query in page
