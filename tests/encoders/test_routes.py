"""Encoders that end with a `Router`: queries pass other modules than documents."""

from __future__ import annotations

import numpy as np
import pytest
from prompted import load_again
from routed import write_routed
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Router
from toy import sentences

from isospace.config import CorpusConfig, TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import UserError
from isospace.evaluation.pairs import PromptedEncoders
from isospace.evaluation.vector_cache import cached
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


def test_sides_have_functions_of_their_own_without_a_prompt(toy_model, tmp_path):
    routed = load_encoder(str(write_routed(toy_model, tmp_path)[1]), device="cpu")
    wanted = routed.embed(TEXTS, side="query")
    for encode in (
        PromptedEncoders.of_prompts(routed.prompts, routed.embed),
        cached(routed, tmp_path / "cache"),
        cached(routed, tmp_path / "cache"),  # as it was kept
    ):
        assert encode.documents == encode.plain != encode.queries
        assert np.array_equal(encode.queries(TEXTS), wanted)
        assert np.array_equal(encode.documents(TEXTS), routed.embed(TEXTS))


def test_what_needs_one_way_for_all_texts_refuses(toy_model, toy_corpus, tmp_path):
    model = str(write_routed(toy_model, tmp_path)[1])
    text = CorpusConfig(corpus=(str(toy_corpus),))
    with pytest.raises(UserError, match="training"):
        train(TrainConfig(text=text, model=model, output=tmp_path / "run"), progress=Silent())
    with pytest.raises(UserError, match="whitening"):
        whiten_model(WhitenConfig(text=text, model=model, output=tmp_path / "out"), Silent())
    for target in ("hf", "onnx"):
        with pytest.raises(UserError, match="Router"):
            export(model, target, tmp_path / target, progress=Silent())


@pytest.mark.parametrize(
    "router",
    [
        Router({"query": [Normalize()], "passage": []}, "passage"),
        Router({"query": [Normalize()], "document": []}, "query"),
    ],
)
def test_other_routers_are_refused(toy_model, router):
    modules = SentenceTransformer(str(toy_model), device="cpu")
    with pytest.raises(UserError, match="Router"):
        Encoder(SentenceTransformer(modules=[*modules, router], device="cpu"), "model")
