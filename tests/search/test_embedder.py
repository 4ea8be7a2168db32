import math

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from toy import sentences

import isospace
from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.errors import UserError
from isospace.operators import nearest

TEXTS = sentences(30, seed=2)


@pytest.fixture(scope="module")
def model(toy_model):
    return isospace.load(toy_model)


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))
    return dot / math.sqrt(sum(x * x for x in a.tolist()) * sum(y * y for y in b.tolist()))


def test_encode_gives_the_models_own_vectors(model, toy_model):
    ours = load_encoder(str(toy_model), device="cpu").embed(TEXTS)
    assert np.allclose(model.encode(TEXTS), ours, atol=1e-6)
    assert model.encode(TEXTS).dtype == np.float32
    assert model.encode([]).shape == (0, model.dim)
    one = model.encode(TEXTS[0])
    assert one.shape == (32,)
    assert np.allclose(one, ours[0], atol=1e-6)
    units = model.encode(TEXTS, normalize_embeddings=True)
    assert np.allclose(np.linalg.norm(units, axis=1), 1, atol=1e-6)
    assert np.allclose(model.encode(TEXTS, batch_size=3), ours, atol=1e-6)


def test_a_loaded_model_is_a_model(toy_model):
    prompts = {"prompts": {"query": "the cat ", "text": "a dog "}, "default_prompt_name": "query"}
    prompted = SentenceTransformer(str(toy_model), device="cpu", **prompts)
    for given in ({}, {"prompt": "on "}):
        ours = isospace.load(prompted).encode(TEXTS, **given)
        assert np.allclose(ours, prompted.encode(TEXTS, **given), atol=1e-6)
    encoder = load_encoder(str(toy_model), device="cpu")
    cls = isospace.load(encoder, "cls", "cpu")
    assert encoder.pooling == "mean"
    wanted = load_encoder(str(toy_model), EncoderSettings(pooling="cls"), device="cpu").embed(TEXTS)
    assert np.array_equal(cls.encode(TEXTS), wanted)


def test_what_cannot_be_encoded_is_named(model):
    with pytest.raises(UserError, match=r"`precision` int8.*quantize_embeddings"):
        model.encode(TEXTS, precision="int8")
    with pytest.raises(UserError, match=r"text 1 is 'nan' of type float"):
        model.encode(["one", float("nan")])
    with pytest.raises(UserError, match=r"text 1 is 'None' of type NoneType"):
        model.index([TEXTS[0], None])
    with pytest.raises(UserError, match="NoneType: not a model"):
        isospace.load(None)


def test_similarity_is_the_cosine_of_every_pair(model):
    vectors = model.encode(TEXTS)
    expected = [[cosine(a, b) for b in vectors[:4]] for a in vectors[4:7]]
    assert np.allclose(model.similarity(TEXTS[4:7], TEXTS[:4]), expected, atol=1e-5)
    assert np.allclose(model.similarity(vectors[4:7], TEXTS[:4]), expected, atol=1e-5)
    single = model.similarity(TEXTS[4], vectors[0])
    assert single.shape == ()
    assert model.similarity(np.zeros(model.dim), vectors[:2]).tolist() == [0, 0]
    assert float(single) == pytest.approx(expected[0][0], abs=1e-5)
    large = (1000 * vectors[:4]).astype(np.float16)  # the square of 1000 is none of its numbers
    assert np.allclose(model.similarity(vectors[4:7], large), expected, atol=1e-2)


@pytest.mark.parametrize("k", [1, 5, 100])
def test_search_finds_what_a_loop_finds(model, monkeypatch, k):
    monkeypatch.setattr(nearest, "_SLICE", 7)
    index = model.index(iter(TEXTS))
    assert len(index) == len(TEXTS)
    queries = ["the cat sat", "a new river", "model"]
    vectors, wanted = model.encode(TEXTS), model.encode(queries)
    for query, hits in zip(wanted, index.search(queries, k), strict=True):
        scores = [cosine(query, vector) for vector in vectors]
        best = sorted(range(len(TEXTS)), key=lambda row, s=scores: -s[row])[:k]
        assert [hit.row for hit in hits] == best
        assert [hit.text for hit in hits] == [TEXTS[row] for row in best]
        assert np.allclose([hit.score for hit in hits], [scores[row] for row in best], atol=1e-5)


def test_one_query_gives_one_list(model):
    index = model.index(TEXTS)
    (hit, *_) = index.search(TEXTS[3], k=2)
    assert hit.row == 3
    assert hit.score == pytest.approx(1, abs=1e-5)
    assert index.search(model.encode(TEXTS[3]), k=1)[0][0].row == 3
    assert index.search([], k=1) == []
    assert model.index([]).search("x") == []
    with pytest.raises(UserError, match=r"^`k` 0"):
        index.search("x", k=0)


def test_a_corpus_can_be_a_file(model, tmp_path):
    path = tmp_path / "corpus.csv"
    path.write_text("words\n" + "".join(f"{text}\n" for text in TEXTS))
    for corpus in (path, str(path)):
        assert model.index(corpus, column="words").texts == TEXTS
