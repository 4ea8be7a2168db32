"""benchmarks/cell_archive.py: finished runs in one file, gone on with elsewhere."""

import importlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from isospace.comparison.compare import compare
from isospace.training.run import Run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DATA = Path(os.environ.get("ISOSPACE_DATA", BENCHMARKS / "../../shared/data/senteval"))
PAGE = BENCHMARKS.parent / "docs" / "results" / "comparison.md"


@pytest.fixture
def archive(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("cell_archive")


def test_a_comparison_goes_on_elsewhere_from_its_archive(archive, base, toy_corpus, tmp_path):
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
    assert [run.items("after").keys() for run in runs] == [
        run.items("before").keys() for run in runs
    ]
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
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the STS sets")
def test_the_published_page_is_what_its_archive_says(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    comparison = importlib.import_module("comparison")
    published = comparison.judged_again(DATA)
    page = PAGE.read_text(encoding="utf-8")
    assert published.verdict.text in page
    for make in comparison.TABLES:
        assert comparison.shown(make("", published)) in page
