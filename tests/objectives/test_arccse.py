"""ArcCSE: the margin at all angles, the triplet and its spans, golden files."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from objective_views import loss, random

from isospace.encoders.loading import load_encoder
from isospace.objectives.arccse import ArcCSE
from isospace.training.sources import Sources
from isospace.views import Views, Vocabulary
from isospace.views.edits import MaskSpan

ArcCon = partial(ArcCSE, triplet_weight=0.0)


def test_the_triplet_is_of_the_encoder_s_vectors_and_the_contrast_of_the_head_s():
    encoded, projected = random(5, 4, 6), random(5, 4, 6, seed=1)
    found = ArcCSE(triplet_weight=0.3, triplet_margin=0.2)(Views(encoded, projected))
    hinges = []
    for x, less, more in zip(*encoded[2:], strict=True):
        near, far = (torch.cosine_similarity(x, y, dim=0).item() for y in (less, more))
        hinges.append(max(0.0, 0.2 + far - near))
    assert min(hinges) == 0.0 < max(hinges)
    assert found["triplet"].item() == pytest.approx(0.3 * sum(hinges) / 4)
    assert found["arc_con"].item() == pytest.approx(loss(ArcCon(), *projected[:2]))


def test_of_spans_at_one_place_the_longer_holds_the_shorter():
    fractions = {i / j for j in range(1, 66) for i in range(j)}
    last = math.nextafter(1.0, 0.0)
    places = {p for f in fractions for p in (f, min(math.nextafter(f, 1.0), last))} | {last}
    for tokens in range(65):
        ends = set()
        for place in places:
            inner, outer = (MaskSpan(share=share).span(tokens, place) for share in (0.2, 0.4))
            assert 0 <= outer.start <= inner.start <= inner.stop <= outer.stop <= tokens
            assert inner.stop - inner.start == -(-tokens // 5)
            assert outer.stop - outer.start == -(-2 * tokens // 5)
            ends |= {inner.start, inner.stop}
        assert {0, tokens} <= ends


def test_a_masked_span_leaves_the_special_tokens_and_the_length():
    vocabulary = Vocabulary(frozenset({1, 2}), 3, lambda text: [])
    ids = np.array([1, *range(10, 20), 2])
    starts = set()
    for seed in range(100):
        edited = MaskSpan(share=0.25)(ids, np.random.default_rng(seed), vocabulary)
        (masked,) = np.nonzero(edited == 3)
        assert masked.tolist() == list(range(masked[0], masked[0] + 3))
        assert np.array_equal(np.delete(edited, masked), np.delete(ids, masked))
        starts.add(int(masked[0]))
    assert starts == set(range(1, 9))
    nothing = ids[[0, -1]]
    assert np.array_equal(MaskSpan()(nothing, np.random.default_rng(0), vocabulary), nothing)


def test_the_triplet_s_views_of_a_sentence_lose_more_and_more_of_it(toy_model):
    encoder = load_encoder(str(toy_model), device="cpu")
    ids = [np.array(row) for row in encoder.tokens.ids(["a big red dog reads " * 4] * 9)]
    batch = Sources(ArcCSE().views, encoder, 0).batch([ids], np.arange(9), 0)
    whole, less, more = batch.input_ids.chunk(3)
    gone = [(view == encoder.vocabulary.mask_id) for view in (whole, less, more)]
    assert [mask.sum(1).tolist() for mask in gone] == [[0] * 9, [4] * 9, [8] * 9]
    assert (gone[1] <= gone[2]).all()
    assert len({tuple(row.tolist()) for row in gone[1]}) > 1
