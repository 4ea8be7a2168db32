"""Vectors of a base model are made once, and only what made them can read them."""

import numpy as np
import pytest
import torch

from isospace.encoders.loading import load_encoder
from isospace.evaluation.pairs import cached

TEXTS = ["the cat sat", "a dog", "😀 大きさ", "half a pair \ud83d"]


@pytest.fixture
def encoder(toy_model):
    return load_encoder(str(toy_model), device="cpu")


def test_vectors_are_made_once_unless_they_are_damaged(encoder, tmp_path, monkeypatch):
    calls, embed = [], encoder.embed

    def watched(texts, **rest):
        calls.append(list(texts))
        return embed(texts, **rest)

    monkeypatch.setattr(encoder, "embed", watched)
    first = cached(encoder, tmp_path)(TEXTS)
    assert np.array_equal(cached(encoder, tmp_path)(tuple(TEXTS)), first)
    assert calls == [TEXTS]
    assert np.array_equal(first, embed(TEXTS))
    [path] = tmp_path.rglob("*.npz")
    content = bytearray(path.read_bytes())
    content[bytes(content).find(first.tobytes()) + 7] ^= 8
    path.write_bytes(content)
    for _ in range(2):
        assert np.array_equal(cached(encoder, tmp_path)(TEXTS), first)
    assert calls == [TEXTS, TEXTS]


def test_other_weights_are_other_vectors(encoder, tmp_path):
    before = cached(encoder, tmp_path)(TEXTS)
    with torch.no_grad():
        next(encoder.parameters()).add_(0.1)
    after = cached(encoder, tmp_path)(TEXTS)
    assert not np.array_equal(before, after)
    assert np.array_equal(after, encoder.embed(TEXTS))
