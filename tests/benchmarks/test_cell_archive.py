"""benchmarks/cell_archive.py: finished runs in one file, gone on with elsewhere."""

import importlib
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from isospace.comparison.compare import compare
from isospace.errors import UserError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


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

    corpus, there = shutil.copy(toy_corpus, tmp_path / "moved.txt"), tmp_path / "there"
    archive.unpack(kept, there, corpus, tmp_path)
    torn = there / "simcse" / "seed-43" / "results.json"
    torn.unlink()
    archive.unpack(kept, there, corpus, tmp_path)
    cells = sorted(there.glob("simcse/seed-*/results.json"))
    assert len(cells) == 2
    written = [cell.stat().st_mtime_ns for cell in cells]
    moved = replace(base, text=replace(base.text, corpus=(str(corpus),)))
    again = compare({"simcse": moved}, 2, there)
    assert again.scores == found.scores
    assert again.gains == found.gains
    assert [cell.stat().st_mtime_ns for cell in cells] == written  # none was run
