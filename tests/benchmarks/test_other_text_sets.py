"""benchmarks/other_text_sets.py: what is carried is what it makes."""

from __future__ import annotations

import gzip
import hashlib
import importlib
from pathlib import Path

import pytest

from isospace.evaluation.other_text import CARRIED, DATA, carried

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def sets(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("other_text_sets")


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_carried_has_the_hash_of_what_is_made(sets, name):
    path = DATA / f"{name}.jsonl.gz"
    assert hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() == sets.HASHES[name]
    assert path.stat().st_size < 160_000


def test_only_packages_whose_licence_is_there_are_carried(sets):
    read = (DATA / "README.md").read_text("utf-8").lower()
    groups = (*carried("docstrings", "validation").groups, *carried("docstrings", "test").groups)
    assert {group.split("/")[0] for group in groups} <= set(sets.PACKAGES)
    assert all(f"| {package} " in read for package in sets.PACKAGES)
    assert "wordnet 3.0 copyright 2006 by princeton university" in read
