"""Training of an encoder for queries alone against fixed vectors of passages."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import sentences

from isospace.adaptation.fine_tune import QueryPairs, train_queries
from isospace.encoders.loading import load_encoder
from isospace.recipes import find
from isospace.training.step import Diverged

CONFIG = replace(find("pairs").config, batch_size=4, learning_rate=1e-3)
PASSAGES = [*sentences(7, seed=1), sentences(7, seed=1)[0]]  # the last belongs to two queries
QUERIES = sentences(8, seed=2)


@pytest.fixture
def encoder(toy_model):
    return load_encoder(str(toy_model))


@pytest.fixture
def pairs(encoder):
    return QueryPairs.encode(QUERIES, PASSAGES, encoder.embed)


def test_the_loss_compares_each_query_with_every_distinct_passage(encoder, pairs):
    found = list(train_queries(encoder, pairs, replace(CONFIG, learning_rate=1e-12), updates=2))
    distinct = list(dict.fromkeys(PASSAGES))
    assert len(pairs.passages) == len(distinct) == 7
    q, d = (
        x / np.linalg.norm(x, axis=1, keepdims=True)
        for x in (encoder.embed(QUERIES), encoder.embed(distinct))
    )
    temperature = CONFIG.objective.temperature
    losses = []
    for query, passage in zip(q, PASSAGES, strict=True):
        cosines = d @ query / temperature
        losses.append(np.log(np.exp(cosines).sum()) - cosines[distinct.index(passage)])
    assert np.mean(found) == pytest.approx(np.mean(losses), rel=1e-4)  # two batches, all queries


def test_training_finds_the_passages_and_is_repeated_bit_for_bit(encoder, pairs):
    twin = copy.deepcopy(encoder)
    losses = list(train_queries(encoder, pairs, CONFIG, updates=40))
    assert np.mean(losses[-2:]) < 0.5 * np.mean(losses[:2])
    assert losses == list(train_queries(twin, pairs, CONFIG, updates=40))
    assert np.array_equal(encoder.embed(QUERIES), twin.embed(QUERIES))


def test_no_update_begins_when_the_time_is_over(encoder, pairs):
    assert list(train_queries(encoder, pairs, CONFIG, updates=9, seconds=-1)) == []


def test_a_loss_that_is_not_finite_ends_the_training(encoder, pairs):
    broken = replace(pairs, passages=torch.full_like(pairs.passages, torch.nan))
    with pytest.raises(Diverged):
        list(train_queries(encoder, broken, CONFIG, updates=1))
