"""benchmarks/cell_archive.py: finished runs in one file, gone on with elsewhere."""

import importlib
import json
import os
import shutil
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sts_files import write_senteval

from isospace.comparison.baselines import Baseline
from isospace.comparison.compare import compare
from isospace.comparison.judgement import judge_runs
from isospace.errors import UserError
from isospace.report.scoreboard import COMPARISON_TABLES
from isospace.system.tables import markdown_table
from isospace.training.run import Run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DATA = Path(os.environ.get("ISOSPACE_DATA", BENCHMARKS / "../../shared/data/senteval"))
PUBLISHED = BENCHMARKS.parent / "docs" / "results" / "comparison-cells"


@pytest.fixture
def archive(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("cell_archive")


def test_a_comparison_goes_on_elsewhere_from_its_archive(archive, base, toy_corpus, tmp_path):
    found = compare({"simcse": base}, 2, tmp_path / "here")
    kept = tmp_path / "cells"
    archive.pack(tmp_path / "here", kept)
    files = sorted(kept.glob("*.tar.xz"))
    assert [file.name for file in files] == ["simcse-seed-42.tar.xz", "simcse-seed-43.tar.xz"]
    for file in files:
        with tarfile.open(file) as cell:
            parts = {Path(name).name: cell.extractfile(name).read() for name in cell.getnames()}
        assert parts.keys() == {"config.json", "results.json", "metrics.jsonl", "after.npz"}
        for path in (tmp_path, toy_corpus):
            assert not any(str(path).encode() in content for content in parts.values())

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
    assert again.gains == found.gains
    assert again.other_text == found.other_text
    assert found.other_text["simcse"].keys() == {"docstrings", "definitions"}
    assert [run.results_path.stat().st_mtime_ns for run in runs] == written  # none was run


def test_baselines_are_judged_from_the_archive(archive, base, tmp_path):
    found = compare({"simcse": base}, 1, tmp_path / "here", baselines={"same": base.model})
    archive.pack(tmp_path / "here", tmp_path / "cells")
    rows = archive.unpack_baselines(tmp_path / "cells", tmp_path / "there")
    assert rows.keys() == {"same"}
    assert rows["same"].about.model == Path(base.model).name  # no path
    runs = {"simcse": [Run(tmp_path / "here" / "simcse" / "seed-42")]}
    again = judge_runs(runs, "MRR", {"same": [rows["same"]]})
    assert (again.scores, again.gains) == (found.scores, found.gains)
    assert again.other_text["same"] == found.other_text["same"]


def test_baselines_of_several_seeds_are_one_row(archive, base, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    archived = importlib.import_module("archived")
    here, cells = tmp_path / "here", tmp_path / "cells"
    [corpus] = base.text.corpus
    compare({"simcse": base}, 1, here, baselines={"same": base.model})
    again = Baseline.read(here / "baselines" / "same")
    worse = {**again.items, "MRR": again.items["MRR"] / 2}
    replace(again, items=worse).write(here / "baselines" / "same-1")
    archive.pack(here, cells)
    found = archived.judged_again(["simcse", "same"], cells, Path(corpus), Path(), "MRR")
    assert found.gains.keys() == {"simcse", "same"}
    gain, score = found.gains["same"]["MRR"].over_base, found.scores["same"]["MRR"].seeds[0]
    assert gain.seeds == 2
    assert gain.mean == pytest.approx(-score / 100 / 4)


def test_runs_that_were_scored_on_other_sets_are_refused(archive, base, tmp_path):
    write_senteval(tmp_path / "sts")
    others = shutil.copytree(tmp_path / "sts", tmp_path / "others")
    for gold in (others / "STS" / "STS12-en-test").glob("STS.gs.*"):
        gold.write_text("0.4\n\n5.0\n3.2\n")
    scored = replace(base, data=str(tmp_path / "sts"))
    compare({"simcse": scored}, 1, tmp_path / "here")
    archive.pack(tmp_path / "here", tmp_path / "cells")
    unpack = partial(archive.unpack, tmp_path / "cells", corpus=Path("text.txt"))
    with pytest.raises(UserError, match=r"scored on other pairs of STS12 than .*others has"):
        unpack(tmp_path / "other_text", sts=tmp_path / "others")
    assert not list((tmp_path / "other_text").rglob("seed-*/results.json"))  # torn: not finished
    unpack(tmp_path / "other_text", sts=tmp_path / "sts")
    here, there = (Run(tmp_path / which / "simcse" / "seed-42") for which in ("here", "other_text"))
    for part in ("before", "after", "group", "gold", "seen"):
        wanted, found = here.items(part), there.items(part)
        assert found.keys() == wanted.keys()
        assert all(np.array_equal(found[column], wanted[column]) for column in wanted)


@pytest.fixture(scope="module")
def published():
    """The published comparison, judged again as its command does it."""
    if not DATA.is_dir():
        pytest.skip("needs the STS sets")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        archived, comparison = map(importlib.import_module, ("archived", "comparison"))
        corpus = Path(comparison.CORPUS)
        return archived.judged_again(comparison.OBJECTIVES, comparison.CELLS, corpus, DATA)


@pytest.mark.slow
def test_the_published_page_is_what_its_archive_says(published):
    """The archive was written when evaluations were looks and the benchmark an exam."""
    page = (PUBLISHED.parent / "comparison.md").read_text(encoding="utf-8")
    assert published.verdict.text in page
    for table in filter(None, (make("", published) for make in COMPARISON_TABLES)):
        assert f"{markdown_table(table.rows)}\n\n{table.note}" in page


@pytest.mark.slow
def test_shared_sentences_and_items_count_in_the_published_comparison(published):
    """Findings of a review: by seeds alone, or by items that share nothing, more was "shown"."""
    shown = {(one.ahead, one.behind): one.shown for one in published.differences["Avg unseen"]}
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


def test_what_is_published_is_json_of_the_whole(published, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(BENCHMARKS)
    importlib.import_module("archived").publish(tmp_path / "page.json", published)
    record = json.loads((tmp_path / "page.json").read_text())
    assert record["scores"].keys() == published.scores.keys()
    assert str(BENCHMARKS.parent) not in json.dumps(record)
