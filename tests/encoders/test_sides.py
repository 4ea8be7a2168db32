"""Queries and documents: which prompt and which modules each has, by sentence-transformers' rules."""

from dataclasses import replace

import numpy as np
import pytest
from prompted import KINDS, load_again, write_prompted
from routed import write_asymmetric, write_routed, write_static
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Router
from toy import sentences

from isospace.adaptation.whiten import whiten_model
from isospace.config import CorpusConfig, TrainConfig, WhitenConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.encoders.saving import save_model
from isospace.encoders.settings import SIDES, EncoderSettings, Prompts
from isospace.errors import UserError
from isospace.evaluation.pairs import cached
from isospace.export.ship import export
from isospace.system.progress import Silent
from isospace.training.batches import Sources
from isospace.training.train import train
from isospace.views import View

TEXTS = sentences(6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("include_prompt", [True, False])
def test_sides_have_sentence_transformers_own_vectors(tmp_path, kind, include_prompt):
    prompted = write_prompted(tmp_path, KINDS[kind], include_prompt=include_prompt)
    encoder, model = load_encoder(str(prompted.folder), device="cpu"), prompted.model
    assert np.allclose(encoder.embed(TEXTS, side="query"), model.encode_query(TEXTS), atol=1e-6)
    assert np.allclose(encoder.embed(TEXTS), model.encode(TEXTS), atol=1e-6)
    documents = encoder.embed(TEXTS, side="document")
    assert np.allclose(documents, prompted.documents(TEXTS), atol=1e-6)
    if kind != "e5":  # whose passages sentence-transformers 6 leaves without their prompt
        assert np.allclose(documents, model.encode_document(TEXTS), atol=1e-6)
    assert not np.allclose(encoder.embed(TEXTS, side="query"), documents, atol=1e-3)
    assert encoder.is_fast
    save_model(encoder, tmp_path / "shipped")
    shipped = load_again(tmp_path / "shipped")
    assert np.allclose(shipped.encode_query(TEXTS), prompted.queries(TEXTS), atol=1e-6)
    assert np.allclose(shipped.encode_document(TEXTS), documents, atol=1e-6)
    assert np.allclose(shipped.encode(TEXTS), model.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("include_prompt", [True, False])
def test_views_of_several_texts_have_the_prompt_of_each(tmp_path, include_prompt):
    prompted = write_prompted(tmp_path, KINDS["gemma"], include_prompt=include_prompt)
    encoder = load_encoder(str(prompted.folder), device="cpu")
    plan = [View(0.0), View(0.0, text=1), View(0.0, text=2)]
    sources, texts = Sources(plan, encoder, 0), (TEXTS[:2], TEXTS[2:4], TEXTS[4:])
    sided = zip(texts, ("query", "document", "document"), strict=True)
    ids = [list(map(np.array, encoder.tokens.ids(own, side=side))) for own, side in sided]
    views = encoder(sources.batch(ids, np.arange(2), 0), plan, sources.of_view)
    wanted = [prompted.queries(texts[0]), *map(prompted.documents, texts[1:])]
    for view, vectors in zip(views, wanted, strict=True):
        assert np.allclose(view.detach().numpy(), vectors, atol=1e-6)


@pytest.mark.parametrize(
    ("prompts", "default", "wanted"),
    [
        ({"corpus": "c: ", "passage": "p: "}, None, Prompts("", "", "p: ")),
        ({"query": "", "all": "a: "}, "all", Prompts("a: ", "", "")),
        ({"query": "q: ", "document": "d: "}, "document", Prompts("d: ", "q: ", "d: ")),
    ],
)
def test_the_models_own_prompts(prompts, default, wanted):
    assert Prompts.of_model(prompts, default) == wanted


def test_a_given_prompt_replaces_the_models_own(tmp_path):
    folder = str(write_prompted(tmp_path, KINDS["e5"]).folder)
    given = EncoderSettings(query_prompt="Find: ", document_prompt="")
    own = EncoderSettings()
    for settings, wanted in ((own, ("query: ", "passage: ")), (given, ("Find: ", ""))):
        prompts = load_encoder(folder, settings, "cpu").prompts
        assert (prompts.query, prompts.document) == wanted


def test_a_default_prompt_that_was_a_sides_is_kept_under_another_name(tmp_path):
    prompted = write_prompted(tmp_path, KINDS["gemma"], default="query")
    settings = EncoderSettings(query_prompt="the big cat: ")
    save_model(load_encoder(str(prompted.folder), settings, "cpu"), tmp_path / "shipped")
    shipped = load_again(tmp_path / "shipped")
    assert shipped.default_prompt_name == "default"
    assert np.allclose(shipped.encode(TEXTS), prompted.model.encode(TEXTS), atol=1e-6)
    queries = prompted.vectors(TEXTS, "the big cat: ")
    assert np.allclose(shipped.encode_query(TEXTS), queries, atol=1e-6)


def test_hashes_and_caches_tell_prompts_apart(tmp_path, toy_model):
    encoder = load_encoder(str(write_prompted(tmp_path, KINDS["e5"]).folder), device="cpu")
    assert len({weights_hash(encoder, side) for side in SIDES}) == 3
    vectors = cached(encoder, tmp_path)
    for side in SIDES:
        assert np.array_equal(vectors.for_side(side)(TEXTS), encoder.embed(TEXTS, side=side))
    plain = load_encoder(str(toy_model), device="cpu")
    before = weights_hash(plain)
    assert weights_hash(plain, *SIDES) == before
    plain = plain.with_prompts(Prompts(query="find: "))
    assert weights_hash(plain) == weights_hash(plain, "document") == before
    assert weights_hash(plain, "query") != before


def test_what_is_cut_is_the_text_and_not_its_prompt(tmp_path):
    encoder = load_encoder(str(write_prompted(tmp_path, KINDS["bge"]).folder), device="cpu")
    text = " ".join(TEXTS)
    words = encoder.tokens.ids([text], 10)[0][1:-1]
    prompt = encoder.tokenizer(encoder.prompts.query, add_special_tokens=False)["input_ids"]
    assert encoder.tokens.ids([text], 10, side="query")[0][1:-1] == prompt + words


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
def test_each_side_has_sentence_transformers_vectors_and_is_exported(toy_model, tmp_path, kind):
    folder = write_asymmetric(toy_model, tmp_path / "model", kind)
    texts = [*TEXTS, "", "the cat " * 100, "Größe"]
    ours, theirs = load_encoder(str(folder), device="cpu"), load_again(folder)
    ways = (theirs.encode, theirs.encode_query, theirs.encode_document)
    wanted = {side: way(texts) for side, way in zip(SIDES, ways, strict=True)}
    assert not np.allclose(wanted["query"], wanted["document"], atol=0.01)
    kept = cached(ours, tmp_path / "cache")
    for side, vectors in wanted.items():
        assert np.allclose(ours.embed(texts, side=side), vectors, atol=1e-6)
        assert np.allclose(kept.for_side(side)(texts), vectors, atol=1e-6)
    assert weights_hash(ours, "query") != weights_hash(ours, "document")
    export(str(folder), "st", tmp_path / "st", progress=Silent())
    again = load_again(tmp_path / "st")
    for encode, vectors in zip(
        (again.encode, again.encode_query, again.encode_document), wanted.values(), strict=True
    ):
        assert np.array_equal(encode(texts), vectors)


def test_static_vectors_are_read_and_written(toy_model, tmp_path):
    folder = write_static(toy_model, tmp_path / "static")
    vectors = load_again(folder).encode(TEXTS)
    assert np.allclose(load_encoder(str(folder)).embed(TEXTS), vectors, atol=1e-6)
    export(str(folder), "st", tmp_path / "again", progress=Silent())
    assert np.allclose(load_again(tmp_path / "again").encode(TEXTS), vectors, atol=1e-6)


@pytest.mark.parametrize("kind", ["static queries", "two layers"])
def test_a_model_of_two_ways_is_not_trained_or_converted(toy_model, toy_corpus, tmp_path, kind):
    model = str(write_asymmetric(toy_model, tmp_path / "model", kind))
    text = CorpusConfig(corpus=(str(toy_corpus),))
    config = TrainConfig(text=text, model=model, output=tmp_path / "run")
    with pytest.raises(UserError, match="Router"):
        train(config, progress=Silent())
    with pytest.raises(UserError, match="Router"):
        whiten_model(WhitenConfig(text=text, model=model, output=tmp_path / "out"), Silent())
    with pytest.raises(UserError, match="Router"):
        export(model, "onnx", tmp_path / "onnx", progress=Silent())
    with pytest.raises(UserError, match="Router" if kind == "static queries" else "training"):
        train(replace(config, pooling="cls"), progress=Silent())


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
