"""A static twin: what it holds, who loads it, what is said of it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from model2vec import StaticModel
from resumed import cut_short
from searches import titled
from sentence_transformers import SentenceTransformer
from toy import WORDS, sentences

import isospace
from isospace.cli import main
from isospace.config import DistillConfig
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import Interrupted, UserError
from isospace.evaluation.pairs import PromptedEncoders
from isospace.evaluation.retrieval import evaluate_retrieval
from isospace.export import distill as distill_module
from isospace.export.distill import distill, read_results
from isospace.export.static_words import (
    TrainingPairs,
    bags_of,
    corpus_tokenizer,
    means,
    pieces_of,
    train_table,
)
from isospace.recipes import find
from isospace.training.prepare import load_data

TEXTS = [*sentences(20, seed=9), "", "unseenword 文字 cat"]


@pytest.fixture(scope="module")
def config(toy_model, tmp_path_factory):
    """400 documents whose second passages say the words of their titles again, among others."""
    folder, draw, rows = tmp_path_factory.mktemp("twin"), np.random.default_rng(0), []
    for text in sentences(400, seed=4):
        title = draw.choice(WORDS, 6, replace=False).tolist()
        second = [*draw.permutation(title).tolist(), *draw.choice(WORDS, 6).tolist()]
        rows.append({"title": " ".join(title), "text": f"{text}\n\n{' '.join(second)}"})
    file = folder / "docs.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    text = titled(file, held_out=200)
    return DistillConfig(model=str(toy_model), text=text, output=folder / "full")


@pytest.fixture(scope="module")
def full(config):
    return distill(config)


def data_of(config):
    return load_data(replace(find("pairs").config, model=config.model, text=config.text))


def test_every_library_makes_the_same_vectors_of_a_twin(config, full):
    folder = str(config.output)
    own = isospace.load(folder).encode(TEXTS)
    theirs = SentenceTransformer(folder, device="cpu").encode(TEXTS)
    np.testing.assert_allclose(own, theirs, atol=1e-6)
    np.testing.assert_allclose(own, StaticModel.from_pretrained(folder).encode(TEXTS), atol=1e-6)
    assert own.shape == (len(TEXTS), 32)
    assert not own[TEXTS.index("")].any()


def test_the_folder_scores_as_its_results_say(config, full):
    assert read_results(config.output) == full
    pairs = data_of(config).benchmark.pairs
    found = evaluate_retrieval(load_encoder(str(config.output)).embed, pairs)
    assert full.twin.pairs.mrr == pytest.approx(found.mrr, abs=1e-6)
    assert full.loss.mean == pytest.approx(full.twin.pairs.mrr - full.encoder.pairs.mrr)
    assert full.loss.low < full.loss.mean < full.loss.high
    assert full.twin.pairs.mrr > 0.3 > full.encoder.pairs.mrr  # the toy's weights are random
    assert full.evaluations == ()  # too few documents to split validation pairs off
    assert set(full.other_text) >= {"definitions"}


def test_the_card_names_no_text_and_says_the_loss(config, full):
    card = (config.output / "README.md").read_text()
    assert full.verdict in card
    assert full.corpus in card
    assert not any(text in card for text in sentences(400, seed=4))


def test_static_queries_search_an_index_of_the_encoder(config, tmp_path):
    folder = tmp_path / "queries"
    results = distill(replace(config, queries_only=True, output=folder))
    twin, encoder = load_encoder(str(folder)), load_encoder(config.model)
    assert weights_hash(twin, "document") == weights_hash(encoder, "document")
    static = StaticModel.from_pretrained(folder / "query_0_StaticEmbedding").encode(TEXTS)
    whole = SentenceTransformer(str(folder), device="cpu")
    for vectors in (twin.embed(TEXTS, side="query"), whole.encode_query(TEXTS)):
        np.testing.assert_allclose(vectors, static, atol=1e-6)
    ways = PromptedEncoders(whole.encode_query, encoder.embed, encoder.embed)
    found = evaluate_retrieval(ways, data_of(config).benchmark.pairs).mrr
    assert results.twin.pairs.mrr == pytest.approx(found, abs=1e-6)
    assert found > 0.1  # chance is 0.06, and the toy's documents hold little more


def test_sparse_updates_are_those_of_the_whole_table():
    """One update of SparseAdam moves what is read by the learning rate, and nothing else."""
    texts = ["cat sat", "mat red", "dog runs", "tree river", "unread words"]
    tokenizer = corpus_tokenizer(texts * 2)
    table = torch.randn(len(pieces_of(tokenizer)), 8, generator=torch.Generator().manual_seed(0))
    bags = [bags_of(tokenizer, side) for side in (texts[:2], texts[2:4])]
    pairs = TrainingPairs(*bags, np.array([[0, 1], [2, 3]]))
    loss, used, leaf = pairs.loss(table, np.arange(2))
    whole = table.clone().requires_grad_()
    first, second = (torch.nn.functional.normalize(means(bag, whole), dim=1) for bag in bags)
    logits, right = first @ second.T / 0.1, torch.arange(2)
    cross = torch.nn.functional.cross_entropy
    expected = (cross(logits, right) + cross(logits.T, right)) / 2
    torch.testing.assert_close(loss, expected)
    [sparse] = torch.autograd.grad(loss, [leaf])
    [dense] = torch.autograd.grad(expected, [whole])
    torch.testing.assert_close(dense[used], sparse)
    trained, evaluations = train_table(table, pairs, None, 0, lambda _: None)
    again, _ = train_table(table, pairs, None, 0, lambda _: None)
    assert torch.equal(trained, again)
    assert evaluations == ()
    unread = np.setdiff1d(np.arange(len(table)), used.numpy())
    assert len(unread)
    assert torch.equal(trained[unread], table[unread])
    assert (trained[used] != table[used]).all()


def test_equal_texts_are_no_negatives():
    tokenizer = corpus_tokenizer(["cat sat mat dog"] * 2)
    sides = ["cat", "cat", "dog"], ["sat", "mat", "mat"]
    table = torch.eye(len(pieces_of(tokenizer)))
    bags = [bags_of(tokenizer, side) for side in sides]
    loss, *_ = TrainingPairs(*bags, np.array([[0, 1], [0, 2], [3, 2]])).loss(table, np.arange(3))
    # All cosines are 0. The first and last pair have each other as negatives, the second has none.
    assert float(loss.detach()) == pytest.approx(2 / 3 * np.log(2), abs=1e-5)


def test_pieces_of_scripts_without_spaces_and_unknown_characters():
    tokenizer = corpus_tokenizer(["検索モデルを使う", "検索エンジンの使い方"] * 3)
    words = [one for one, _ in tokenizer.pre_tokenizer.pre_tokenize_str("検索モデルを使う")]
    assert words == ["検索", "モデル", "を", "使", "う"]
    assert "検索" in pieces_of(tokenizer)
    assert tokenizer.encode("検索").ids == tokenizer.encode("検索☃").ids
    assert tokenizer.encode("☃").ids == []


def test_a_stopped_command_leaves_nothing(config, tmp_path):
    with pytest.raises(Interrupted), cut_short(distill_module, "save_model"):
        distill(replace(config, output=tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_refusals(config, full, tmp_path, toy_model, capsys):
    with pytest.raises(UserError, match="`corpus`"):
        distill(DistillConfig(model=str(toy_model), output=tmp_path / "out"))
    with pytest.raises(UserError, match="exists"):
        distill(config)
    assert main(["distill", str(toy_model), "--corpus", str(config.text.corpus[0])]) == 2
    assert "--output" in capsys.readouterr().err
