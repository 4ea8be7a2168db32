"""`isospace evaluate` on a small encoder: every part, its protocol, and what is refused."""

import json
import shutil

import pytest
from command_line import run, run_well
from report_runs import finish, write_run
from sts_files import write, write_senteval
from toy import sentences

from isospace.cli import main
from isospace.config import EvaluateConfig
from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.evaluation.evaluate import Evaluation, evaluate
from isospace.evaluation.task import Conditions
from isospace.evaluation.transfer import TransferResult, TransferScore


@pytest.fixture(scope="module")
def texts():
    return sentences(24, seed=7)


def write_rows(path, rows):
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_sts_and_geometry(capsys, toy_model, tmp_path):
    folder = write_senteval(tmp_path)
    out, _ = run_well(capsys, "evaluate", toy_model, "--data", folder, "--json")
    report = json.loads(out)
    assert report["sts"]["paper_row"].keys() >= {"STS12", "SICK-R", "Avg"}
    assert report["geometry"] is report["transfer"] is report["own"] is None
    assert report["pooling"] == "mean"
    out, _ = run_well(capsys, "evaluate", toy_model, "--data", folder, "--geometry")
    assert "geometry (4 distinct sentences of STS-B dev, shuffled, no dropout; alignment ov" in out
    assert "| effective_rank |" in out


def test_every_kind_of_own_data_at_once(capsys, toy_model, tmp_path, texts):
    rows = {
        "pairs": [(text, f"{text} again") for text in texts],
        "scored": [(text, texts[i - 1], str(i % 5)) for i, text in enumerate(texts)],
    }
    files = [write_rows(tmp_path / f"{kind}.tsv", own) for kind, own in rows.items()]
    out, _ = run_well(capsys, "evaluate", toy_model, "--own", *files, "--json")
    report = json.loads(out)
    assert [(one["kind"], one["n"]) for one in report["own"]] == [("pairs", 24), ("scored", 24)]
    assert report["sts"] is report["geometry"] is None
    out, _ = run_well(capsys, "evaluate", toy_model, "--own", *files, "--geometry")
    assert "scored.tsv, scored, x 100 (columns without names; correlation of" in out
    assert "geometry (48 distinct sentences of pairs.tsv, scored.tsv" in out


def test_a_loaded_model_is_scored_as_it_is(toy_model, tmp_path, texts):
    path = write_rows(tmp_path / "pairs.tsv", list(zip(texts[:12], texts[12:], strict=True)))
    by_name = evaluate(str(toy_model), EvaluateConfig(own=path, pooling="cls")).to_json()
    model = load_encoder(str(toy_model), EncoderSettings(pooling="cls")).model
    given = evaluate(model, EvaluateConfig(own=path)).to_json()
    assert given == by_name | {"model": "the given model"}


def test_a_run_keeps_the_scores_of_its_transfer_tasks(tmp_path, monkeypatch, capsys):
    finished = finish(write_run(tmp_path / "run"))
    scores = TransferResult((TransferScore("MR", "all", 81.5, 80.0, 10, 10),))
    evaluation = Evaluation(Conditions("m", "cls", "float32"), {"transfer": scores})
    monkeypatch.setattr("isospace.evaluation.evaluate.evaluate_models", lambda *_: [evaluation])
    words = ["evaluate", finished.folder, "--json", "--transfer"]
    for other in (["--pooling", "mean"], ["--precision", "bf16"]):
        assert run(capsys, *words, *other)[0] == 0
        assert finished.transfer == {}  # not what the run shipped
    assert run(capsys, *words)[0] == 0
    assert finished.transfer == json.loads(json.dumps(scores.to_json()))
    assert run(capsys, "evaluate", "minilm", "--json")[0] == 0  # no folder to keep anything in


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--own FILE"),
        (["--geometry"], "--geometry: needs texts"),
        (["--own", "bad.tsv"], "bad.tsv:2: 1 column; expected 2"),
        (["--own", "small.tsv", "--transfer"], "--transfer: "),
    ],
)
def test_what_is_refused_before_loading(capsys, toy_model, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("isospace.evaluation.evaluate.as_encoder", None)  # any work would fail
    write_rows(tmp_path / "bad.tsv", [("q r", "d"), ("q s",), ("q t", "e")])
    write_rows(tmp_path / "small.tsv", [("q r", "d s"), ("q s", "d t")])
    status, _, err = run(capsys, "evaluate", toy_model, *words)
    assert status == 2
    assert message in " ".join(err.split())


def test_judged_queries_of_several_models_are_one_table(toy_model, tmp_path, capsys):
    judged = tmp_path / "beir"
    for side, words in (("corpus", None), ("queries", 3)):
        texts = [" ".join(text.split()[:words]) for text in sentences(40)]
        rows = [json.dumps({"_id": f"{side[0]}{i}", "text": text}) for i, text in enumerate(texts)]
        write(judged / f"{side}.jsonl", "\n".join(rows))
    write(judged / "qrels/test.tsv", "".join(f"q{i}\tc{i}\t{min(i, 1)}\n" for i in range(40)))
    other = tmp_path / "other"
    shutil.copytree(toy_model, other)
    assert main(["evaluate", str(toy_model), str(other), "--own", str(judged)]) == 0
    lines = [line for line in capsys.readouterr().out.split("\n") if line]
    title, _, _, *rows = lines[:8]
    assert title.startswith("beir, retrieval, x 100 (40 judged queries of qrels/test.tsv, 40 doc")
    assert "1 of them without a relevant document and so at 0" in title
    names = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    assert names == [str(toy_model), "BM25", f"{toy_model} + BM25", str(other), f"{other} + BM25"]
    assert rows[0].split(" | ")[1:] == rows[3].split(" | ")[1:]  # the same weights
    assert lines[9] == f"beir, retrieval, over {toy_model}"
    same = lines[14].split(" | ")
    assert same[0] == f"| {other}"
    assert all(cell.startswith("+0.00 (") for cell in same[1:])
