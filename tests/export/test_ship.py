from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from report_runs import results_of
from sentence_transformers import SentenceTransformer
from toy import sentences

from isospace.commands.export import Export
from isospace.encoders.loading import load_encoder
from isospace.encoders.saving import save_model
from isospace.errors import UserError
from isospace.evaluation.sts import STSScores
from isospace.export import ship as shipping
from isospace.export.onnx import Int8Loss
from isospace.export.ship import export
from isospace.objectives import RankCSE
from isospace.statistics.gains import Gain
from isospace.statistics.verdict import Verdict, VerdictKind
from isospace.training.card import model_card
from isospace.training.origin import Origin
from isospace.training.results import CorpusFacts, write_results
from isospace.training.run import Run, run_of
from isospace.training.selection import Choice

RESULTS = replace(
    results_of(mrr=0.5, gain=0.125),
    corpus=CorpusFacts(1234, "d1gest", {"read": 2000, "too short": 0}),
    pooling="mean",
    steps=20,
    model_step=20,
    choice=Choice(20, "last", "step", 20.0, 0.0, (), "the last evaluation"),
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
    for part in ("Adapted: much better.", "| MRR | 50.00 | 62.50 |", "1,234 sentences", "`d1gest`",
                 "2,000 read", "WhitenedCSE", "@", "Licence of the base model: unknown", "MRR of my pairs"):  # fmt: skip
        assert part in card
    assert "too short" not in card
    assert str(run.folder.parent) not in card


def test_sts_scores_come_with_their_protocol(run):
    scores = replace(RESULTS.base, sts=STSScores((), {"STS12": 70.123, "Avg": None}, {}))
    results = replace(RESULTS, base=scores, adapted=scores)
    card = model_card(run.config, results, "mean")
    assert "| STS12 | 70.12 | 70.12 |" in card
    assert "Avg |" not in card
    assert "4,927" in card


def test_a_card_says_what_pairs_and_teachers_taught(run):
    secret = run.folder.parent / "secret"
    teachers = f"base+bm25, {secret}/mine+bm25, glove:{secret}/words.txt, org/ranker"
    config = replace(run.config, views="pairs", objective=RankCSE(), teacher=teachers)
    card = model_card(config, RESULTS, "mean")
    assert "- Trained on pairs of texts of the corpus that belong together\n" in card
    assert "`base+bm25`, `mine+bm25`, `words.txt`, `org/ranker`" in card
    assert "secret" not in card
    assert "eacher" not in model_card(run.config, RESULTS, "mean")


def test_a_plain_model_gets_no_invented_history(toy_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = export(str(toy_model), "hf")
    assert made.folder.resolve() == tmp_path / "bert-hf"
    card = (made.folder / "README.md").read_text()
    assert "not known here" in card
    assert "Licence of this model: unknown" in card
    assert "license:" not in card
    assert "MRR" not in card


def test_a_whole_run_has_the_licence_of_its_model(run):
    (run.model_folder / "README.md").write_text("---\nlicense: mit\n---\n")
    assert Origin.of(str(run.folder)).licence == "mit"


def test_a_start_that_is_gone_is_no_model_of_the_hub(run, tmp_path, monkeypatch):
    """`projects/start` was a folder when the run began; here it looks like a name of the Hub."""
    other_text = replace(run.config, model="projects/start")
    (run.folder / "config.json").write_text(other_text.to_json())
    monkeypatch.chdir(tmp_path)
    card = (export(str(run.folder), "st").folder / "README.md").read_text()
    assert "base_model" not in card
    assert "projects" not in card
    assert "# bert, adapted without labels" in card


def test_a_run_in_a_folder_called_minilm_is_not_minilm(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run.folder.rename(tmp_path / "minilm")
    assert run_of("./minilm") is not None
    assert run_of("minilm") is None


def test_the_similarity_of_a_model_goes_with_it(toy_model, tmp_path):
    model = SentenceTransformer(str(toy_model), device="cpu", similarity_fn_name="dot")
    model.save(str(tmp_path / "dot"), create_model_card=False)  # its card asks the Hub
    made = export(str(tmp_path / "dot"), "st", tmp_path / "st")
    assert SentenceTransformer(str(made.folder), device="cpu").similarity_fn_name == "dot"


def test_nothing_is_overwritten(run, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="exists already"):
        export(str(run.folder), "st", tmp_path / "there")


def test_a_target_that_there_is_none_of_is_refused(run):
    """It wrote a graph."""
    with pytest.raises(UserError, match=r"^`to` tf: expected st, onnx, hf$"):
        export(str(run.folder), "tf")


def test_an_unfinished_run_is_refused(run):
    run.results_path.unlink()
    with pytest.raises(UserError, match="`resume`"):
        export(str(run.folder), "st")


def test_a_run_that_was_stopped_in_its_first_examination_is_not_finished(config, tmp_path):
    run = Run.create(replace(config, output=tmp_path / "run"))
    for use in (load_encoder, lambda name: export(name, "st")):
        with pytest.raises(UserError, match=r"run is not finished.* `resume`"):
            use(str(run.folder))


def test_a_folder_that_cannot_be_made_is_refused_before_the_model_is_loaded(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr(shipping, "load_encoder", lambda _: pytest.fail("was loaded"))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        export(str(run.folder), "st", tmp_path / "file" / "deeper" / "out")
    assert (tmp_path / "file").is_file()


@pytest.mark.parametrize("wrong", [{"int8": True}, {"sample": "x.txt"}])
def test_options_that_go_with_others(run, wrong):
    with pytest.raises(UserError, match="`int8`"):
        export(str(run.folder), "st", **wrong)


@pytest.mark.parametrize("of_sample", [{"column": "body"}, {"encoding": "latin-1"}])
def test_how_a_sample_is_read_is_refused_without_one(run, of_sample):
    with pytest.raises(UserError, match="`column` and `encoding` are of a `sample`"):
        export(str(run.folder), "st", **of_sample)


def sample_seen(monkeypatch, *arguments, **options):
    seen = []
    monkeypatch.setattr(shipping, "save_onnx", lambda *args: (seen.append(args[3]), (0.0, None))[1])
    export(*arguments, to="onnx", int8=True, **options)
    return seen[0]


def test_the_sample_is_the_users_file(run, tmp_path, monkeypatch):
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps({"t": text}) + "\n" for text in ["a", "  ", "b"] * 400))
    sample = sample_seen(monkeypatch, str(run.folder), sample=file, column="t")
    assert sample.name == "mine.jsonl"
    assert sample.sentences == ["a", "b"] * (shipping.SAMPLE_SIZE // 2)


def test_the_sample_is_every_file_of_a_folder(run, tmp_path, monkeypatch):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "1.txt").write_text("first\n\n")
    (folder / "2.txt").write_bytes("größer\n".encode("latin-1"))
    sample = sample_seen(monkeypatch, str(run.folder), sample=folder, encoding="latin-1")
    assert (sample.name, sample.sentences) == ("texts", ["first", "größer"])


def test_a_sample_without_a_sentence_is_refused_before_the_export(run, tmp_path, monkeypatch):
    blank = tmp_path / "blank.txt"
    blank.write_text("\n  \n\t\n")
    with pytest.raises(UserError, match=r"blank\.txt: only blank lines"):
        sample_seen(monkeypatch, str(run.folder), sample=blank)


def test_the_sample_is_what_the_run_kept(run, monkeypatch):
    run.write_sample(["kept one", "kept two"], np.ones((2, 4)), np.ones((2, 4)))
    assert sample_seen(monkeypatch, str(run.folder)).sentences == ("kept one", "kept two")


def test_a_sample_keeps_vectors_that_half_precision_cannot_hold(run):
    before, after = np.full((2, 4), 1e5), np.full((2, 4), 1 / 3)
    run.write_sample(["one", "two"], before, after)
    assert np.array_equal(run.sample.before, before)
    assert np.allclose(run.sample.after, after, rtol=1e-3)


def test_the_sample_is_pythons_docstrings_otherwise(toy_model, tmp_path, monkeypatch):
    sample = sample_seen(monkeypatch, str(toy_model), output=tmp_path / "out")
    assert len(set(sample.sentences)) == len(sample.sentences) > 200
    assert "docstrings" in sample.name


def test_the_verb_prints_what_was_found(run, capsys, monkeypatch):
    assert Export(str(run.folder), "st").run() == 0
    shown = capsys.readouterr().err
    assert "largest 1 - cosine" in shown
    assert "(limit 1e-06)" in shown
    monkeypatch.setattr(
        shipping, "save_onnx", lambda *_: (1e-9, Int8Loss(0.99, 0.9, 5, "mine.txt"))
    )
    assert Export(str(run.folder), "onnx", int8=True, json=True).run() == 0
    made = json.loads(capsys.readouterr().out)
    assert made == {
        "folder": str(run.folder / "onnx"),
        "gap": 1e-9,
        "limit": 1e-5,
        "loss": {"mean": 0.99, "lowest": 0.9, "sentences": 5, "sample": "mine.txt"},
    }
