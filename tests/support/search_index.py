"""An index of the toy model's, shared by the tests of search."""

import os
import shutil
import signal

import numpy as np
import pytest
from toy import sentences

from isospace.cli import main
from isospace.config import IndexConfig
from isospace.encoders.loading import load_encoder
from isospace.search import Changes, SearchIndex, database, files, index as module
from isospace.search.database import Database
from isospace.system.progress import Silent

TEXTS = [*sentences(298, seed=2), f"{sentences(1, seed=7)[0]} zebra", "😀 大きさ"]
YEARS = [1900 + i % 100 for i in range(len(TEXTS))]


def index_files(inputs, to, model=None, progress=None, **settings):
    return files.index_files(IndexConfig(inputs, to, model, **settings), progress or Silent())


def texts_of(folder):
    hits = SearchIndex.open(folder).search("cat", k=1000).hits[0]
    found = {hit.id: hit.text for hit in hits}
    assert len(found) == len(hits)
    return found


@pytest.fixture(scope="session")
def encode(toy_model):
    encoder = load_encoder(str(toy_model), device="cpu")

    def unit(texts):
        vectors = encoder.embed(texts).astype(np.float64)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return unit


@pytest.fixture(scope="session")
def template(toy_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "template"
    index = SearchIndex.create(folder, str(toy_model), {"year": "int", "kind": "str"})
    metadata = [{"year": y, "kind": "even" if y % 2 == 0 else None} for y in YEARS]
    changes = index.add(TEXTS, [f"t{i}" for i in range(len(TEXTS))], metadata)
    assert changes == Changes(added=len(TEXTS))
    index.refresh()
    return folder


@pytest.fixture
def folder(template, tmp_path):
    return shutil.copytree(template, tmp_path / "index")


@pytest.fixture
def index(folder):
    return SearchIndex.open(folder)


@pytest.fixture
def lowered(monkeypatch):
    """So few rows need an approximate index that the tests have one; measured on 10 of them."""
    monkeypatch.setattr(module, "EXACT_ROWS", 50)
    monkeypatch.setattr(database, "RECALL_QUERIES", 10)


def index_until_killed(words):
    """`isospace index`, killed when it has written three slices of 64 rows."""
    database.SLICE = 64
    write, calls = Database.write, []

    def last(*arguments):
        calls.append(write(*arguments))
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    Database.write = last
    main(words)
