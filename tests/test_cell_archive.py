"""benchmarks/cell_archive.py: finished runs in one file, gone on with elsewhere."""

import importlib
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from isospace.compare import compare

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def archive(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("cell_archive")


def test_a_comparison_goes_on_elsewhere_from_its_archive(archive, base, toy_corpus, tmp_path):
    found = compare({"simcse": base}, 2, tmp_path / "here", quiet=True)
    file = tmp_path / "cells.tar.xz"
    archive.pack(tmp_path / "here", file)
    with tarfile.open(file) as cells:
        settings = [cells.extractfile(name).read() for name in cells.getnames() if "json" in name]
    assert len(settings) == 2 * 3
    assert not any(str(tmp_path).encode() in text for text in settings)

    corpus, there = shutil.copy(toy_corpus, tmp_path / "moved.txt"), tmp_path / "there"
    archive.unpack(file, there, corpus, tmp_path)
    torn = there / "simcse" / "seed-43" / "config.json"
    torn.unlink()
    archive.unpack(file, there, corpus, tmp_path)
    cells = sorted(there.glob("simcse/seed-*/report.html"))
    assert len(cells) == 2
    written = [cell.stat().st_mtime_ns for cell in cells]
    moved = replace(base, text=replace(base.text, corpus=(str(corpus),)))
    again = compare({"simcse": moved}, 2, there, quiet=True)
    assert again.scores == found.scores
    assert again.gains == found.gains
    assert [cell.stat().st_mtime_ns for cell in cells] == written  # none was run
