"""Vectors of a base model are made once, and only what made them can read them."""

from __future__ import annotations

import shutil
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import isospace
from isospace.encoders.loading import load_encoder
from isospace.evaluation import vector_cache
from isospace.evaluation.vector_cache import cached
from isospace.system.progress import Silent
from isospace.views import View

PACKAGE = Path(isospace.__file__).parent

TEXTS = ["the cat sat", "a dog", "😀 大きさ", "half a pair \ud83d"]


@pytest.fixture
def encoder(toy_model):
    return load_encoder(str(toy_model), device="cpu")


@pytest.fixture
def encoded(encoder, monkeypatch):
    """Every list of texts that is encoded in earnest."""
    calls = []
    embed = encoder.embed
    monkeypatch.setattr(
        encoder, "embed", lambda texts, **rest: calls.append(list(texts)) or embed(texts, **rest)
    )
    return calls


def test_the_second_time_nothing_is_encoded(encoder, encoded, tmp_path):
    first = cached(encoder, tmp_path)(TEXTS)
    assert np.array_equal(cached(encoder, tmp_path)(tuple(TEXTS)), first)
    assert encoded == [TEXTS]
    assert np.array_equal(first, encoder.embed(TEXTS))


def test_a_bar_shows_the_texts_that_are_encoded_and_no_others(encoder, tmp_path):
    class Bars(Silent):
        @contextmanager
        def bar(self, label, total, done=0):
            moved = []
            yield moved.append
            bars.append((label, total, sum(moved)))

    bars: list[tuple[str, int, int]] = []
    for _ in range(2):
        cached(encoder, tmp_path, progress=Bars())(TEXTS)
    assert bars == [("encode", 4, 4)]


@pytest.mark.parametrize("damage", ["bit", "cut"])
def test_damaged_vectors_are_made_again(encoder, encoded, tmp_path, damage):
    first = cached(encoder, tmp_path)(TEXTS)
    [path] = tmp_path.rglob("*.npz")
    content = bytearray(path.read_bytes())
    if damage == "bit":
        content[bytes(content).find(first.tobytes()) + 7] ^= 8
    else:
        del content[len(content) // 2 :]
    path.write_bytes(content)
    for _ in range(2):
        assert np.array_equal(cached(encoder, tmp_path)(TEXTS), first)
    assert encoded == [TEXTS, TEXTS]


def test_other_weights_are_other_vectors(encoder, tmp_path):
    before = cached(encoder, tmp_path)(TEXTS)
    with torch.no_grad():
        next(encoder.parameters()).add_(0.1)
    after = cached(encoder, tmp_path)(TEXTS)
    assert not np.array_equal(before, after)
    assert np.array_equal(after, encoder.embed(TEXTS))


def code_that_encodes(toy_model) -> set[str]:
    """Files of isospace whose functions run while vectors are made, as names in the package."""
    encoder = load_encoder(str(toy_model), device="cpu")
    files: set[str] = set()

    def note(frame, *_):
        files.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        for pooling in ("cls", "last2"):  # the fast path and the general one
            encoder.set_pooling(pooling)
            encoder.embed([*TEXTS, "x"], View(), batch_tokens=8)
            encoder.embed([*TEXTS, "x"], batch_tokens=8)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    ours = (Path(name) for name in files)
    return {str(file.relative_to(PACKAGE)) for file in ours if file.is_relative_to(PACKAGE)}


def test_an_edit_of_any_code_that_encodes_makes_other_vectors(
    encoder, encoded, toy_model, tmp_path, monkeypatch
):
    names = code_that_encodes(toy_model)
    assert {"encoders/encoder.py", "encoders/fast/packed.py", "system/unicode.py"} <= names
    copy = tmp_path / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(vector_cache, "_PACKAGE", copy)
    # A process reads its code once; here it is edited under way.
    monkeypatch.setattr(vector_cache, "_code", vector_cache._code.__wrapped__)
    cached(encoder, tmp_path)(TEXTS)
    for count, name in enumerate(sorted(names), start=1):
        (copy / name).write_text((copy / name).read_text() + "# edited\n")
        cached(encoder, tmp_path)(TEXTS)
        assert len(encoded) == 1 + count, name
    (copy / "report" / "write.py").write_text("# edited")
    cached(encoder, tmp_path)(TEXTS)
    assert len(encoded) == 1 + len(names)
