"""The scripts of benchmarks/: what they read, archive and write is what the pages say."""

import gzip
import hashlib
import importlib
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from searches import write_documents
from toy import write_rows

from isospace.comparison.compare import compare
from isospace.config import EvaluateConfig, TrainConfig
from isospace.evaluation.evaluate import evaluate
from isospace.evaluation.other_text import CARRIED, DATA, carried
from isospace.evaluation.retrieval import DISPLACEMENT
from isospace.training.results import read_results
from isospace.training.run import Run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
STS = Path(os.environ.get("ISOSPACE_DATA", BENCHMARKS / "../../shared/data/senteval"))


@pytest.fixture
def script(monkeypatch):
    """Import a script by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCHMARKS.glob("*.py")))
def test_every_script_can_be_imported(script, name):
    """Most are run by hand, and would break unseen."""
    script(name)


@pytest.mark.parametrize("table", ["cls", "costly", "paragraphs", "mean"])
def test_archived_cells_have_the_settings_that_the_command_asks_for(script, table):
    """Another default of a setting would make the command refuse all of its finished runs."""
    baselines = script("baselines")
    wanted = baselines.TABLES[table].candidates(Path("CORPUS"), Path("STS"))
    results, _ = baselines.read(baselines.CELLS[table])
    runs = {name: found for name, found in results.items() if "/seed-" in name}
    assert runs
    for name, found in runs.items():
        config = TrainConfig(**found["config"])
        row, seed = name.split("/seed-")
        assert config == replace(wanted[row], seed=int(seed), output=config.output), name


def test_archived_results_are_read_by_this_version(script, tmp_path):
    """Where a field of the results changes, the archives have to be written anew."""
    baselines = script("baselines")
    results, _ = baselines.read(baselines.CELLS["costly"])
    found = results["pcl/seed-0"]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(found))
    assert read_results(path).training.evaluations == tuple(found["training"]["evaluations"])
    relations = BENCHMARKS.parent / "docs/results/relations-python-docs-cells.npz.xz"
    _, items = script("cell_archive").read(relations)
    assert f"MRR{DISPLACEMENT}" in items["base"]


def test_a_comparison_goes_on_elsewhere_from_its_archive(script, base, toy_corpus, tmp_path):
    archive = script("cell_archive")
    found = compare({"simcse": base}, 2, tmp_path / "here")
    kept = tmp_path / "cells.npz.xz"
    archive.pack(tmp_path / "here", kept)
    results, items = archive.read(kept)
    assert results.keys() == items.keys() == {"base", "simcse/seed-42", "simcse/seed-43"}
    assert str(tmp_path) not in json.dumps(results)

    corpus, there = shutil.copy(toy_corpus, tmp_path / "moved.txt"), tmp_path / "there"
    archive.unpack(kept, there, corpus, tmp_path)
    shutil.rmtree(there / "simcse" / "seed-43")
    archive.unpack(kept, there, corpus, tmp_path)
    runs = [Run(folder) for folder in sorted(there.glob("simcse/seed-*"))]
    assert all(run.items("after").keys() == run.items("before").keys() for run in runs)
    written = [run.results_path.stat().st_mtime_ns for run in runs]
    assert len(written) == 2
    moved = replace(base, text=replace(base.text, corpus=(str(corpus),)))
    again = compare({"simcse": moved}, 2, there)
    assert again.scores == found.scores
    assert again.gains["simcse"].keys() == found.gains["simcse"].keys()
    gain, archived = (of.gains["simcse"]["MRR"].over_base for of in (found, again))
    assert archived.mean == gain.mean
    assert archived.high - archived.low == pytest.approx(gain.high - gain.low, rel=0.01)
    assert found.other_text["simcse"].keys() == {"docstrings", "definitions"}
    assert [run.results_path.stat().st_mtime_ns for run in runs] == written  # none was run


@pytest.mark.slow
@pytest.mark.skipif(not STS.is_dir(), reason="needs the STS sets")
def test_the_published_page_is_what_its_archive_says(script):
    comparison = script("comparison")
    published = comparison.judged_again(STS)
    page = (BENCHMARKS.parent / "docs" / "results" / "comparison.md").read_text(encoding="utf-8")
    assert published.verdict.text in page
    for make in comparison.TABLES:
        assert comparison.shown(make("", published)) in page


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_carried_has_the_hash_of_what_is_made(script, name):
    packed = (DATA / f"{name}.jsonl.gz").read_bytes()
    found = hashlib.sha256(gzip.decompress(packed)).hexdigest()
    assert found == script("other_text_sets").HASHES[name]
    assert len(packed) < 160_000


def test_only_packages_whose_licence_is_there_are_carried(script):
    packages = script("other_text_sets").PACKAGES
    read = (DATA / "README.md").read_text("utf-8").lower()
    groups = (*carried("docstrings", "validation").groups, *carried("docstrings", "test").groups)
    assert {group.split("/")[0] for group in groups} <= set(packages)
    assert all(f"| {package} " in read for package in packages)
    assert "wordnet 3.0 copyright 2006 by princeton university" in read


@pytest.fixture
def beir(script, monkeypatch, tmp_path):
    """The script of BEIR's sets, with a record and a page of its own."""
    module = script("beir")
    for name in ("PAGE", "RECORD"):
        copied = shutil.copy(getattr(module, name), tmp_path)
        monkeypatch.setattr(module, name, Path(copied))
    return module


def write_set(folder):
    """600 documents, some without a title or a text; 40 queries, one of a document's own id."""
    (folder / "qrels").mkdir(parents=True)
    lines = write_documents(folder / "rows.jsonl").read_text().splitlines()[:600]
    documents = [{"_id": f"d{number}"} | json.loads(line) for number, line in enumerate(lines)]
    queries = [
        {"_id": f"q{number}" if number else "d9", "text": row["title"]}
        for number, row in enumerate(documents[:40])
    ]
    documents = [row | ({} if i % 10 else {"title": ""}) for i, row in enumerate(documents)]
    documents[5]["text"] = ""
    for name, content in (("corpus", documents), ("queries", queries)):
        write_rows(folder / f"{name}.jsonl", content)
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
    about = {"set": "nfcorpus", "by": "A Stranger", "queries": 40, "documents": 600}
    assert run.items() >= about.items()
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
    assert "A Stranger" in beir.PAGE.read_text()


def test_the_page_is_drawn_from_the_record(beir):
    before = beir.PAGE.read_text()
    beir.draw_page(json.loads(beir.RECORD.read_text()))
    assert beir.PAGE.read_text() == before
