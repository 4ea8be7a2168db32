"""benchmarks/cell_archive.py: finished runs in one file, gone on with elsewhere."""

import importlib
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from isospace.comparison.compare import compare
from isospace.errors import UserError
from isospace.training.run import Run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
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

    other = tmp_path / "other.txt"
    other.write_text(toy_corpus.read_text().replace("cat", "dog"))
    with pytest.raises(UserError, match=r"trained on other text than .*other\.txt"):
        archive.unpack(kept, tmp_path / "elsewhere", other, tmp_path)

    assert not list((tmp_path / "elsewhere").rglob("seed-*/results.json"))  # torn: not finished

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
    assert [run.results_path.stat().st_mtime_ns for run in runs] == written  # none was run


@pytest.fixture
def published(archive, tmp_path, monkeypatch):
    """A run of the published comparison, unpacked without its text, which is no part of a clone."""
    data = SimpleNamespace(test_pairs=dict)
    monkeypatch.setattr(archive, "_same_benchmark", lambda run: data)
    cells = tmp_path / "cells"
    cells.mkdir()
    for name in ("start.npz", "iso-seed-0.tar.xz"):
        shutil.copy(PUBLISHED / name, cells)
    archive.unpack(cells, tmp_path / "runs", tmp_path / "text.txt", tmp_path / "sts")
    return Run(tmp_path / "runs" / "iso" / "seed-0")


def test_the_published_archive_can_still_be_read(published):
    """It was written when evaluations were looks and the benchmark an exam."""
    results = published.finished
    assert results.benchmark
    assert len(results.evaluations) == 5
    assert results.choice.step in [evaluation["step"] for evaluation in results.evaluations]
    assert published.items("after").keys() == published.items("before").keys()
    assert published.config.output == published.folder
    assert published.config.evaluations == 4
    assert len(published.evaluations()) == 5
