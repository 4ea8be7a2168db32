"""benchmarks/corpora.py: what it fetches is pinned."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def corpora(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("corpora")


def test_everything_has_a_hash(corpora):
    pinned = [*corpora.WHEELS.values(), *corpora.LISTS.values()]
    packages = [*corpora.PACKAGES.values(), corpora.ANARCHISM, corpora.FOLDOC, corpora.GCIDE]
    pinned += [package.sha256 for package in packages]
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in pinned)
    assert {f"i18n_Translation-{name[7:]}" for name in corpora.CORPORA if "debian-" in name} == {
        name for name in corpora.LISTS if "Translation" in name
    }
