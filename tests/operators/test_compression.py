"""Small vectors: parity with sentence-transformers, and the order that each form gives."""

import numpy as np
import pytest
from sentence_transformers.util import quantize_embeddings

from isospace.operators.compression import Compression, rescore
from isospace.operators.forms import FORMS, forms_for
from isospace.operators.nearest import unit_rows

RANDOM = np.random.default_rng(0)
MIXED = RANDOM.normal(size=(48, 48)) * np.linspace(2, 0.1, 48)
"""Gives dimensions that differ in variance and go together, as an encoder's do."""
TEXTS = (RANDOM.normal(size=(900, 48)) @ MIXED + 0.5).astype(np.float32)
OTHERS = (1.5 * RANDOM.normal(size=(40, 48)) @ MIXED).astype(np.float32)


@pytest.fixture(autouse=True)
def _narrow_forms(monkeypatch):
    """PCA to 12 of 48 dimensions in place of 128 of 384."""
    monkeypatch.setitem(FORMS, "pca-128", FORMS["pca-128"].__class__("float32", 12))
    monkeypatch.setitem(FORMS, "pca-128-int8", FORMS["pca-128"].__class__("int8", 12))


def scores(compression, queries, passages):
    return np.concatenate([block for _, block in compression.score_blocks(queries, passages)])


def test_numbers_are_those_of_sentence_transformers():
    unit, others = unit_rows(TEXTS), unit_rows(OTHERS)
    int8 = Compression.fit("int8", TEXTS)
    assert np.array_equal(int8.ranges, [unit.min(0), unit.max(0)])
    theirs = quantize_embeddings(others, "int8", calibration_embeddings=unit)
    assert np.array_equal(int8.numbers(OTHERS), theirs)
    ubinary = quantize_embeddings(others, "ubinary")
    assert np.array_equal(Compression.fit("binary", TEXTS).numbers(OTHERS), ubinary)
    rescored = Compression.fit("binary-rescored", TEXTS)
    assert np.array_equal(rescored.bits(OTHERS), ubinary)
    assert np.array_equal(rescored.numbers(OTHERS), theirs)


def test_what_is_stored_is_near_what_was_given():
    unit = unit_rows(TEXTS)
    for name, most in (("float32", 1e-7), ("float16", 1e-3), ("int8", 0.003)):
        found = Compression.fit(name, TEXTS)
        restored = found.restored(found.numbers(TEXTS))
        assert np.abs(restored - unit).max() <= most
        assert restored.dtype == np.float32
    # Half a step at most, and the middle of a step on average: no shift of the scores.
    step = np.ptp(unit, axis=0) / 255
    int8 = Compression.fit("int8", TEXTS)
    error = (int8.restored(int8.numbers(TEXTS)) - unit) / step
    assert np.abs(error).max() <= 0.5 + 1e-2
    assert np.abs(error.mean(0)).max() < 0.05


def test_a_dimension_that_never_varies_has_an_int8():
    flat = TEXTS.copy()
    flat[:, 3] = 0
    int8 = Compression.fit("int8", flat)
    assert np.isfinite(int8.restored(int8.numbers(flat))).all()


def test_components_are_the_directions_of_the_largest_variance():
    found = Compression.fit("pca-128", TEXTS)
    unit = unit_rows(TEXTS)
    centred = unit - unit.mean(0)
    _, _, axes = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    expected = unit_rows(centred @ axes[:12].T)
    kept = found.numbers(TEXTS)
    assert kept.shape == (900, 12)
    assert np.allclose(kept @ kept.T, expected @ expected.T, atol=1e-5)
    small = Compression.fit("pca-128-int8", TEXTS)
    assert np.abs(small.restored(small.numbers(TEXTS)) - kept).max() < 0.01
    assert np.allclose(np.abs(small.queries(OTHERS)), np.abs(found.queries(OTHERS)), atol=1e-5)


def test_bits_are_compared_with_numbers_or_with_bits():
    queries, passages = OTHERS[:5], OTHERS[5:]
    signs = np.where(passages > 0, 1, -1) / np.sqrt(48)
    by_numbers = unit_rows(queries) @ signs.T
    assert np.allclose(scores(Compression.fit("binary", TEXTS), queries, passages), by_numbers)
    differ = (queries[:, None] > 0) != (passages[None] > 0)
    both = scores(Compression.fit("binary-both", TEXTS), queries, passages)
    assert np.allclose(both, 1 - 2 * differ.mean(2), atol=1e-6)


def test_rescoring_ranks_the_first_by_int8_and_keeps_the_others_behind():
    passages = np.concatenate([TEXTS, OTHERS])
    bits = scores(Compression.fit("binary-both", TEXTS), OTHERS, passages)
    numbers = scores(Compression.fit("int8", TEXTS), OTHERS, passages)
    rescored = scores(Compression.fit("binary-rescored", TEXTS), OTHERS, passages)
    for by_bits, by_numbers, row in zip(bits, numbers, rescored, strict=True):
        first = np.argsort(-by_bits, kind="stable")[:40]
        order = np.argsort(-row, kind="stable")
        assert order[:40].tolist() == first[np.argsort(-by_numbers[first], kind="stable")].tolist()
        assert by_bits[order[40]] == pytest.approx(np.delete(by_bits, first).max())
    few = np.array([[0.5, 0.4]], np.float32)
    assert rescore(few, few[:, ::-1])[0].tolist() == pytest.approx([0.4, 0.5])


def test_forms_have_their_bytes_and_their_needs():
    names = ("float32", "float16", "int8", "binary", "binary-rescored", "pca-64-int8")
    bytes_of = [FORMS[name].bytes_of(384) for name in names]
    assert bytes_of == [1536, 768, 384, 48, 432, 64]
    assert "pca-256" not in forms_for(256, 10_000)
    assert {"pca-256", "pca-64"}.isdisjoint(forms_for(384, 64))
    assert forms_for(384, 0) == ["float32", "float16", "binary", "binary-both"]
    with pytest.raises(ValueError, match="13 texts"):
        Compression.fit("pca-128", TEXTS[:12])
    with pytest.raises(ValueError, match="48 dimensions"):
        Compression.fit("pca-256", TEXTS)
