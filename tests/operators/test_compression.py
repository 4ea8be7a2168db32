"""Small vectors: parity with sentence-transformers, and the order that each form gives."""

import numpy as np
import pytest
from sentence_transformers.util import quantize_embeddings

from isospace.operators.compression import compressed, rescore, restored, score_blocks
from isospace.operators.nearest import unit_rows

RANDOM = np.random.default_rng(0)
MIXED = RANDOM.normal(size=(48, 48)) * np.linspace(2, 0.1, 48)
"""Gives dimensions that differ in variance and go together, as an encoder's do."""
TEXTS = (RANDOM.normal(size=(900, 48)) @ MIXED + 0.5).astype(np.float32)
OTHERS = (1.5 * RANDOM.normal(size=(40, 48)) @ MIXED).astype(np.float32)


def scores(form, queries, passages):
    return np.concatenate([block for _, block in score_blocks(form, queries, passages)])


def test_bits_are_those_of_sentence_transformers():
    assert np.array_equal(compressed(OTHERS, "binary"), quantize_embeddings(OTHERS, "ubinary"))


def test_what_is_stored_is_near_what_was_given():
    unit = unit_rows(TEXTS)
    for numbers, most in (("float32", 1e-7), ("float16", 1e-3), ("int8", 0.003)):
        found = restored(compressed(TEXTS, numbers), 48)
        assert np.abs(found - unit).max() <= most
        assert found.dtype == np.float32


def test_int8_uses_all_steps_of_each_vector_whatever_its_length():
    stored = compressed(TEXTS, "int8")
    assert stored.dtype == np.int8
    assert (np.abs(stored).max(axis=1) == 127).all()
    assert np.array_equal(compressed(1000 * TEXTS, "int8"), stored)
    assert not compressed(np.zeros((1, 48), np.float32), "int8").any()


def test_bits_are_restored_for_any_number_of_dimensions():
    passages = TEXTS[:9, :13]
    signs = np.where(passages > 0, 1, -1) / np.sqrt(13)
    assert np.allclose(restored(compressed(passages, "binary"), 13), signs)


def test_queries_keep_full_precision():
    queries, passages = OTHERS[:5], OTHERS[5:]
    signs = np.where(passages > 0, 1, -1) / np.sqrt(48)
    assert np.allclose(scores("binary", queries, passages), unit_rows(queries) @ signs.T)
    by_int8 = unit_rows(queries) @ unit_rows(compressed(passages, "int8")).T
    assert np.allclose(scores("int8", queries, passages), by_int8)


def test_rescoring_ranks_the_first_by_int8_and_keeps_the_others_behind():
    passages = np.concatenate([TEXTS, OTHERS])
    bits = 1 - 2 * ((OTHERS[:, None] > 0) != (passages[None] > 0)).mean(2)
    numbers = scores("int8", OTHERS, passages)
    rescored = scores("binary-rescored", OTHERS, passages)
    for by_bits, by_numbers, row in zip(bits.astype(np.float32), numbers, rescored, strict=True):
        order = np.argsort(-row, kind="stable")
        first = order[:40]
        assert by_bits[first].min() >= np.delete(by_bits, first).max() - 1e-6
        assert (np.diff(by_numbers[first]) <= 0).all()
        assert by_bits[order[40]] == pytest.approx(np.delete(by_bits, first).max())
    few = np.array([[0.5, 0.4]], np.float32)
    assert rescore(few, few[:, ::-1])[0].tolist() == pytest.approx([0.4, 0.5])
