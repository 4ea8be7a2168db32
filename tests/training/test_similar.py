"""Batches of groups of similar texts: who is beside whom, each once, by seed and epoch alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import sentences, write_documents

from isospace.config import CorpusConfig, TrainConfig
from isospace.corpus.corpus import load_corpus
from isospace.encoders.loading import load_encoder
from isospace.objectives import SimCSE
from isospace.operators.nearest import unit_rows
from isospace.training.batches import Order
from isospace.training.examples import Examples
from isospace.training.similar import Similar

COUNT, SIZE = 4000, 8


@pytest.fixture(scope="module")
def similar():
    """4,000 texts about a hundred things, more than are compared at once."""
    draw = np.random.default_rng(0)
    things = unit_rows(draw.standard_normal((100, 24)))[draw.integers(100, size=COUNT)]
    vectors = unit_rows(things + 0.1 * draw.standard_normal((COUNT, 24)))
    return Similar(SIZE, np.arange(COUNT), np.rint(2000 * vectors).astype(np.int16))


def cosine_inside(order, vectors, size):
    """Mean over the pairs of texts that stand together."""
    groups = unit_rows(vectors)[order[: len(order) // size * size]].reshape(-1, size, 24)
    products = np.einsum("gid,gjd->gij", groups, groups)
    return float((products.sum((1, 2)) - size).mean() / (size * (size - 1)))


def test_texts_of_a_group_are_near_each_other_and_each_comes_once(similar):
    order = similar.order(np.arange(COUNT), None, np.random.default_rng(1))
    assert np.array_equal(np.sort(order), np.arange(COUNT))
    by_chance = np.random.default_rng(1).permutation(COUNT)
    assert abs(cosine_inside(by_chance, similar.vectors, SIZE)) < 0.05
    assert cosine_inside(order, similar.vectors, SIZE) > 0.7
    # The groups themselves come in any order.
    assert cosine_inside(order[SIZE // 2 :], similar.vectors, SIZE) < 0.5


def test_a_group_has_no_origin_twice(similar):
    draw = np.random.default_rng(2)
    origins = np.stack([np.arange(COUNT) // 4, COUNT + draw.integers(500, size=COUNT)], 1)
    order = similar.order(np.arange(COUNT), origins, np.random.default_rng(1))
    assert np.array_equal(np.sort(order), np.arange(COUNT))
    leaf = next(similar._leaves(np.arange(COUNT), np.arange(COUNT), np.random.default_rng(1)))
    groups = list(similar._groups(leaf, np.arange(COUNT), origins))
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(leaf)))
    assert max(map(len, groups)) == SIZE
    for group in groups:
        own = [set(origins[leaf[place]].tolist()) for place in group]
        assert sum(map(len, own)) == len(set.union(*own))


@pytest.fixture(scope="module")
def base(toy_model, tmp_path_factory):
    folder = write_documents(tmp_path_factory.mktemp("documents") / "docs")
    text = CorpusConfig(corpus=(str(folder),), test_relation="title-passage")
    return TrainConfig(
        text=text,
        objective=SimCSE(),
        model=str(toy_model),
        batch_size=16,
        views="pairs",
        similar=4,
    )


def test_batches_are_made_of_groups_and_have_no_document_twice(base, tmp_path):
    corpus = load_corpus(base.text, tmp_path)
    examples = Examples.from_corpus(base, corpus)
    encoder = load_encoder(base.model, device="cpu")
    anchors = examples.rows[:, 0]
    near = Similar.build(
        4,
        np.unique(anchors),
        corpus.__getitem__,
        corpus.digest,
        encoder,
        "query",
        32,
        tmp_path,
        lambda _: None,
    )
    grouped = replace(examples, similar=near)
    vectors = encoder.embed([corpus[line] for line in anchors.tolist()], max_length=32)
    vectors = unit_rows(vectors - vectors.mean(0))

    def inside(examples: Examples) -> float:
        order = Order(examples, 16, seed=1)
        found, seen = [], []
        for number in range(len(examples) // 16 - 2):
            batch = order.batch(number)
            documents = [set(examples.origins[place].tolist()) for place in batch]
            assert sum(map(len, documents)) == len(set.union(*documents))
            products = vectors[batch] @ vectors[batch].T
            found.append(np.sort(products - 2 * np.eye(16))[:, -3:].mean())
            seen += batch.tolist()
        assert len(seen) == len(set(seen)) > 0.8 * len(examples)
        # As a resumed run asks for them.
        assert (Order(examples, 16, seed=1).batch(3) == order.batch(3)).all()
        assert (Order(examples, 16, seed=2).batch(3) != order.batch(3)).any()
        return float(np.mean(found))

    assert inside(grouped) > inside(examples) + 0.05


def test_vectors_of_the_start_are_made_once(toy_model, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("\n".join(sentences(60)))
    text = CorpusConfig(corpus=(str(file),), near_duplicates=False, held_out=4)
    corpus = load_corpus(text, tmp_path)
    encoder = load_encoder(str(toy_model), device="cpu")
    read, done = corpus.__getitem__, list[int]()

    def of(max_length: int) -> Similar:
        lines = np.array([3, 5, 7])
        return Similar.build(
            2, lines, read, corpus.digest, encoder, None, max_length, tmp_path, done.append
        )

    made = of(16)
    expected = unit_rows(encoder.embed([corpus[line] for line in (3, 5, 7)], max_length=16))
    np.testing.assert_allclose(made.vectors / 2000, expected, atol=3e-4)
    assert np.array_equal(of(16).vectors, made.vectors)
    assert sum(done) == 3
    [file] = tmp_path.rglob("vectors.npy")
    content = file.read_bytes()
    file.unlink()  # the old one stays mapped
    file.write_bytes(content[:-10])
    assert np.array_equal(of(16).vectors, made.vectors)
    assert sum(done) == 6
    of(5)
    with torch.no_grad():
        next(encoder.parameters()).neg_()
    assert not np.array_equal(of(16).vectors, made.vectors)
    assert sum(done) == 12
