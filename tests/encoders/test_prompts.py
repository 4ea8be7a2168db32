"""Which prompt is put before which text, by the rules of sentence-transformers."""

from __future__ import annotations

import numpy as np
import pytest
from prompted import KINDS, load_again, write_prompted
from toy import sentences

from isospace.encoders.loading import load_encoder, set_prompts, weights_hash
from isospace.encoders.prompts import SIDES, Prompts
from isospace.encoders.saving import save_model
from isospace.evaluation.pairs import cached
from isospace.training.plan import Sources
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
    sides = ("query", "document", "document")
    ids = [
        list(map(np.array, encoder.tokens.ids(own, side=side)))
        for own, side in zip(texts, sides, strict=True)
    ]
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

    def loaded(query, document):
        prompts = load_encoder(folder, None, "cpu", query, document).prompts
        return prompts.query, prompts.document

    assert loaded(None, None) == ("query: ", "passage: ")
    assert loaded("Find: ", "") == ("Find: ", "")


def test_a_default_prompt_that_was_a_sides_is_kept_under_another_name(tmp_path):
    prompted = write_prompted(tmp_path, KINDS["gemma"], default="query")
    encoder = load_encoder(str(prompted.folder), None, "cpu", "the big cat: ")
    save_model(encoder, tmp_path / "shipped")
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
    set_prompts(plain, "find: ", None)
    assert weights_hash(plain) == weights_hash(plain, "document") == before
    assert weights_hash(plain, "query") != before


def test_what_is_cut_is_the_text_and_not_its_prompt(tmp_path):
    encoder = load_encoder(str(write_prompted(tmp_path, KINDS["bge"]).folder), device="cpu")
    text = " ".join(TEXTS)
    words = encoder.tokens.ids([text], 10)[0][1:-1]
    prompt = encoder.tokenizer(encoder.prompts.query, add_special_tokens=False)["input_ids"]
    assert encoder.tokens.ids([text], 10, side="query")[0][1:-1] == prompt + words
