"""Encoders with a `Router`: queries pass other modules than documents."""

from __future__ import annotations

import numpy as np
import pytest
from prompted import load_again
from routed import write_asymmetric, write_routed, write_static
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Router
from toy import sentences

from isospace.config import CorpusConfig, TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import UserError
from isospace.evaluation.pairs import cached
from isospace.export.ship import export
from isospace.system.progress import Silent
from isospace.training.train import train
from isospace.whiten.whiten import whiten_model
from isospace.whiten.whiten_config import WhitenConfig

TEXTS = sentences(6)


@pytest.mark.parametrize("normalised", [True, False])
def test_queries_are_mapped_and_documents_stay_those_of_the_base(toy_model, tmp_path, normalised):
    base, routed = (
        load_encoder(str(folder), device="cpu")
        for folder in write_routed(toy_model, tmp_path, normalised=normalised)
    )
    theirs = load_again(tmp_path / "routed")
    queries = theirs.encode_query(TEXTS)
    assert np.allclose(routed.embed(TEXTS, side="query"), queries, atol=1e-6)
    own = base.embed(TEXTS)
    assert not np.allclose(own, queries, atol=0.1)
    for side in (None, "document"):
        assert routed.embed(TEXTS, side=side).tobytes() == own.tobytes()
        assert weights_hash(routed, side) == weights_hash(base)
    assert theirs.encode_document(TEXTS).tobytes() == own.tobytes()
    assert weights_hash(routed, "query") != weights_hash(base, "query")
    assert weights_hash(routed, "query", "document") != weights_hash(base)
    assert (base.prompts.sides, routed.prompts.sides) == ((None,), (None, "query"))


@pytest.mark.parametrize("kind", ["static queries", "two poolings", "two layers", "nested"])
def test_each_side_has_sentence_transformers_vectors(toy_model, tmp_path, kind):
    folder = write_asymmetric(toy_model, tmp_path / "model", kind)
    texts = [*TEXTS, "", "the cat " * 100, "Größe"]
    ours, theirs = load_encoder(str(folder), device="cpu"), load_again(folder)
    wanted = {
        None: theirs.encode(texts),
        "query": theirs.encode_query(texts),
        "document": theirs.encode_document(texts),
    }
    assert not np.allclose(wanted["query"], wanted["document"], atol=0.01)
    kept = cached(ours, tmp_path / "cache")
    for side, vectors in wanted.items():
        assert np.allclose(ours.embed(texts, side=side), vectors, atol=1e-6)
        assert np.allclose(kept.for_side(side)(texts), vectors, atol=1e-6)
    assert weights_hash(ours, "query") != weights_hash(ours, "document")


def test_prompts_that_are_given_reach_both_sides(toy_model, tmp_path):
    folder = write_asymmetric(toy_model, tmp_path / "a", "static queries")
    ours = load_encoder(str(folder), device="cpu", query_prompt="the dog: ", document_prompt="")
    theirs = load_again(folder)
    for side, encode, prompt in (
        ("query", theirs.encode_query, "the dog: "),
        ("document", theirs.encode_document, ""),
    ):
        assert np.allclose(ours.embed(TEXTS, side=side), encode(TEXTS, prompt=prompt), atol=1e-6)


def test_static_vectors_are_read_and_written(toy_model, tmp_path):
    folder = write_static(toy_model, tmp_path / "static")
    texts = [*TEXTS, ""]
    ours, vectors = load_encoder(str(folder)), load_again(folder).encode(texts)
    assert np.allclose(ours.embed(texts), vectors, atol=1e-6)
    assert np.allclose(ours.embed([""]), 0)
    export(str(folder), "st", tmp_path / "again", progress=Silent())
    assert np.allclose(load_again(tmp_path / "again").encode(texts), vectors, atol=1e-6)


@pytest.mark.parametrize("kind", ["static queries", "two poolings"])
def test_a_model_of_two_ways_is_written_as_it_was(toy_model, tmp_path, kind):
    folder = write_asymmetric(toy_model, tmp_path / "model", kind)
    export(str(folder), "st", tmp_path / "st", progress=Silent())
    before, after = load_again(folder), load_again(tmp_path / "st")
    for name in ("encode", "encode_query", "encode_document"):
        wanted, found = (getattr(one, name)(TEXTS) for one in (before, after))
        assert np.array_equal(wanted, found)


@pytest.mark.parametrize("kind", ["static queries", "two layers"])
def test_a_model_of_two_ways_is_not_trained_whitened_or_converted(
    toy_model, toy_corpus, tmp_path, kind
):
    model = str(write_asymmetric(toy_model, tmp_path / "model", kind))
    text = CorpusConfig(corpus=(str(toy_corpus),))
    with pytest.raises(UserError, match="Router"):
        train(TrainConfig(text=text, model=model, output=tmp_path / "run"), progress=Silent())
    with pytest.raises(UserError, match="Router"):
        whiten_model(WhitenConfig(text=text, model=model, output=tmp_path / "out"), Silent())
    with pytest.raises(UserError, match="Router"):
        export(model, "onnx", tmp_path / "onnx", progress=Silent())
    with pytest.raises(UserError, match="Router" if kind == "static queries" else "training"):
        train(
            TrainConfig(text=text, model=model, pooling="cls", output=tmp_path / "run"),
            progress=Silent(),
        )


@pytest.mark.parametrize(
    ("router", "words"),
    [
        (Router({"query": [Normalize()], "passage": []}, "passage"), "Router"),
        (Router({"query": [], "document": []}, "query", True, {(None, "text"): "query"}), "Router"),
        (Router({"query": [Dense(32, 8)], "document": [Dense(32, 16)]}), "8.*16"),
    ],
)
def test_other_routers_are_refused(toy_model, router, words):
    modules = SentenceTransformer(str(toy_model), device="cpu")
    with pytest.raises(UserError, match=words):
        Encoder(SentenceTransformer(modules=[*modules, router], device="cpu"), "model")
