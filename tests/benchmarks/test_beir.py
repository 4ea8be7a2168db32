"""benchmarks/beir.py: a tiny set in BEIR's layout, from its files to the page."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from searches import write_documents

from isospace.evaluation.evaluate import evaluate
from isospace.evaluation.evaluate_config import EvaluateConfig

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def beir(monkeypatch, tmp_path):
    """The script, with a record and a page of its own."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("beir")
    for name in ("PAGE", "RECORD"):
        copied = shutil.copy(getattr(module, name), tmp_path)
        monkeypatch.setattr(module, name, Path(copied))
    return module


def write_set(folder: Path) -> Path:
    """600 documents, some without a title or a text; 40 queries, one of a document's own id."""
    (folder / "qrels").mkdir(parents=True)
    lines = write_documents(folder / "rows.jsonl").read_text().splitlines()[:600]
    rows = [json.loads(line) for line in lines]
    documents = [
        {
            "_id": f"d{number}",
            "title": row["title"] if number % 10 else "",
            "text": row["text"] if number != 5 else "",
            "metadata": {},
        }
        for number, row in enumerate(rows)
    ]
    queries = [
        {"_id": f"q{number}" if number else "d9", "text": row["title"], "metadata": {}}
        for number, row in enumerate(rows[:40])
    ]
    for name, content in (("corpus", documents), ("queries", queries)):
        text = "".join(json.dumps(row) + "\n" for row in content)
        (folder / f"{name}.jsonl").write_text(text)
    judged = [f"{query['_id']}\td{number}\t1\n" for number, query in enumerate(queries)]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged))
    return folder


@pytest.mark.exhaustive
def test_one_command_fills_the_record_and_the_page(beir, toy_model, tmp_path, monkeypatch, capsys):
    folder = write_set(tmp_path / "set")
    monkeypatch.setattr(beir, "TOKENS", 2_000)
    monkeypatch.setattr(beir, "MINILM", str(toy_model))
    words = ["nfcorpus", str(folder), "--by", "A Stranger", "--base", str(toy_model)]
    monkeypatch.setattr(sys, "argv", ["beir.py", *words])
    published = beir.RECORD.read_text()
    beir.main()
    *earlier, run = json.loads(beir.RECORD.read_text())
    assert earlier == json.loads(published)
    assert (run["set"], run["by"], run["queries"], run["documents"]) == (
        "nfcorpus", "A Stranger", 40, 600,
    )  # fmt: skip
    corpus = (folder / "corpus.jsonl").read_bytes()
    assert run["files"]["corpus.jsonl"] == hashlib.sha256(corpus).hexdigest()
    assert list(run["rows"]) == list(beir.ROWS)
    own = evaluate(str(toy_model), EvaluateConfig(own=(str(folder),))).scores["own"]
    expected = own.files[0].with_bm25.values
    for row, way in (("BM25", "BM25"), ("base model", "encoder"), ("base model + BM25", "hybrid")):
        mean, low, high = run["rows"][row]["nDCG@10"]
        assert mean == pytest.approx(100 * expected[way]["nDCG@10"], abs=1e-3)
        assert low < mean < high
        assert run["rows"][row]["R@100"] == pytest.approx(100 * expected[way]["R@100"], abs=1e-3)
    for row in ("whitened by pairs", "adapt", "queries alone"):
        gained = run["rows"][row]["nDCG@10"][0] - run["rows"]["base model"]["nDCG@10"][0]
        assert run["rows"][row]["gain"][0] == pytest.approx(gained, abs=2e-3)
        assert run["rows"][row]["minutes"] > 0
    assert "A Stranger" in beir.PAGE.read_text()


def test_the_page_is_drawn_from_the_record(beir):
    before = beir.PAGE.read_text()
    beir.draw_page(json.loads(beir.RECORD.read_text()))
    assert beir.PAGE.read_text() == before
