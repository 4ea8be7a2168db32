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


@pytest.fixture(scope="module")
def published():
    """The published comparison, judged again as its command does it."""
    if not DATA.is_dir():
        pytest.skip("needs the STS sets")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        return importlib.import_module("comparison").judged_again(DATA)


@pytest.mark.slow
def test_the_published_page_is_what_its_archive_says(published, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    comparison = importlib.import_module("comparison")
    page = PAGE.read_text(encoding="utf-8")
    assert published.verdict.text in page
    for make in comparison.TABLES:
        assert comparison.shown(make("", published)) in page


@pytest.mark.slow
def test_shared_sentences_and_items_count_in_the_published_comparison(published):
    """Findings of a review: by seeds alone, or by items that share nothing, more was "shown"."""
    shown = {(one.ahead, one.behind): one.shown for one in published.differences}
    assert not shown["iso", "whitenedcse"]  # Welch's test over seeds: p 0.048
    below = {row: columns["STS12 unseen"] for row, columns in published.gains.items()}
    p = {row: found.holm_p for row, found in below.items() if found.over_base.mean < 0}
    assert p["whitenedcse"] == pytest.approx(0.058, abs=0.002)  # items alone: 0.012
    assert p["scd"] == pytest.approx(0.057, abs=0.002)  # items alone: 0.0012
    widths = {
        row: 50 * (columns["Avg unseen"].over_base.high - columns["Avg unseen"].over_base.low)
        for row, columns in published.gains.items()
    }
    assert widths["iso"] == pytest.approx(0.70, abs=0.01)  # items alone: 0.60
    assert widths["simcse"] == pytest.approx(0.86, abs=0.01)  # items alone: 0.72
