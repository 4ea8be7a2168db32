"""`adapt` of queries alone: documents keep the vectors of the base model."""

import copy
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from prompted import load_again
from resumed import as_stopped
from searches import paired, short_search, write_centred, write_documents
from toy import run_card, sentences

from isospace.adaptation.adapt import adapt
from isospace.adaptation.candidates import QUERY_MAPS, why_too_few_pairs
from isospace.adaptation.fine_tune import QueryPairs, train_queries
from isospace.adaptation.results import read_candidates
from isospace.adaptation.task import load_base_model, load_task
from isospace.config import AdaptConfig, TrainConfig
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import UserError
from isospace.evaluation.pairs import PromptedEncoders
from isospace.evaluation.retrieval import evaluate_retrieval
from isospace.export.ship import export
from isospace.operators.nearest import unit_rows
from isospace.recipes import find
from isospace.search.index import SearchIndex
from isospace.system.progress import Silent
from isospace.training.prepare import load_data
from isospace.training.step import Diverged

TEXTS = sentences(20, seed=3)


@pytest.fixture(scope="module")
def config(small_split, toy_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("queries-only")
    return AdaptConfig(
        text=paired(folder / "pairs.jsonl"),
        model=str(write_centred(toy_model, folder / "base")),
        max_drop=100,
        queries_only=True,
        budget=(1, "tokens"),
        output=folder / "run",
    )


@pytest.fixture(scope="module")
def adapted(config):
    """Return a search without fine-tuning, for which its budget is too small."""
    return adapt(config, progress=Silent())


@pytest.fixture(scope="module")
def tuned(config):
    """Return a search that fine-tunes, also on queries of the user."""
    queries = config.output.with_name("queries.tsv")
    rows = zip(sentences(30, seed=8), sentences(30, seed=9), strict=True)
    lines = ["\t".join(row) for row in rows] + [f"{text}\t" for text in sentences(20, seed=7)]
    queries.write_text("\n".join(lines))
    more = {"budget": (100_000, "tokens"), "queries": str(queries)}
    return adapt(replace(config, output=queries.with_name("tuned"), **more), progress=Silent())


def test_maps_of_queries_are_all_that_is_tried_without_training(adapted):
    tried = [one.name for one in read_candidates(adapted.run.folder).candidates]
    maps = [choice.name for choice in QUERY_MAPS.tried]
    assert [name.partition(", ")[2] for name in tried] == ["", *maps]
    assert adapted.results.training.steps == 0
    assert not adapted.results.ships_base


@pytest.mark.parametrize("search", ["adapted", "tuned"])
def test_documents_keep_their_vectors_and_queries_those_measured(search, config, request):
    adapted = request.getfixturevalue(search)
    base, model = load_again(Path(config.model)), load_again(adapted.model_folder)
    assert model.encode_document(TEXTS).tobytes() == base.encode_document(TEXTS).tobytes()
    assert model.encode(TEXTS).tobytes() == base.encode(TEXTS).tobytes()
    encode = PromptedEncoders(model.encode_query, model.encode_document, model.encode)
    pairs = load_data(adapted.run.config).benchmark.pairs
    found, results = evaluate_retrieval(encode, pairs).mrr, adapted.results
    assert found == pytest.approx(results.adapted.pairs.mrr, abs=1e-4)
    assert found > results.base.pairs.mrr + 0.05
    ours, before = (load_encoder(str(one)) for one in (adapted.run.folder, config.model))
    assert weights_hash(ours, "document") == weights_hash(before, "document")


@pytest.mark.parametrize("search", ["adapted", "tuned"])
def test_an_index_of_the_base_model_takes_adapted_queries(search, config, tmp_path, request):
    adapted = request.getfixturevalue(search)
    SearchIndex.create(tmp_path / "index", config.model).add(TEXTS, map(str, range(20)))
    base, model = load_again(Path(config.model)), load_again(adapted.model_folder)
    before, wanted = (
        np.sort(unit_rows(one.encode_document(TEXTS)) @ unit_rows(one.encode_query(["a cat"]))[0])
        for one in (base, model)
    )
    found = SearchIndex.open(tmp_path / "index", adapted.run.folder).search("a cat", k=20)
    assert [hit.cosine for hit in found.hits[0]] == pytest.approx(wanted[::-1], abs=1e-5)
    assert not np.allclose(before, wanted, atol=1e-3)


def test_a_fine_tuned_encoder_of_queries_is_tried_merged_and_mapped(tuned):
    kinds = [one.kind for one in read_candidates(tuned.run.folder).best]
    mapped = QUERY_MAPS.first.kind
    tuned_kinds = [f"fine-tuned, then {mapped}", f"merged, then {mapped}"]
    assert kinds == ["base model", mapped, *tuned_kinds]
    card = (tuned.model_folder / "README.md").read_text(encoding="utf-8")
    assert tuned.results.training.steps >= 10
    assert "20 queries without a passage were not used." in read_candidates(tuned.run.folder).notes
    assert "The model holds two encoders" in card or "safetensors" in card


def test_the_loader_of_the_card_maps_vectors_of_the_base_model(adapted, config, tmp_path):
    """The card of an export, which keeps both sides, has the same one."""
    export(str(adapted.run.folder), "st", tmp_path / "st", progress=Silent())
    for folder in (adapted.model_folder, tmp_path / "st"):
        assert "## How to deploy" in (folder / "README.md").read_text(encoding="utf-8")
        map_vectors = run_card(folder, "safetensors")["map_vectors"]
        base = load_again(Path(config.model))
        mapped = map_vectors(base.encode_query(TEXTS))
        wanted = load_again(adapted.model_folder).encode_query(TEXTS)
        assert np.array_equal(load_again(folder).encode_query(TEXTS), wanted)
        assert np.allclose(mapped, wanted, atol=1e-5)
        assert np.allclose(mapped[0], map_vectors(base.encode(TEXTS[0])))


@pytest.mark.parametrize("search", ["adapted", "tuned"])
def test_what_was_stopped_goes_on_to_the_same_model(search, tmp_path, request):
    whole = request.getfixturevalue(search)
    stopped = as_stopped(whole.run, tmp_path / "run")
    again = adapt(resume=stopped, progress=Silent())
    weights = sorted(again.model_folder.rglob("*.safetensors"))
    assert weights
    for file in weights:
        assert file.read_bytes() == (whole.run.folder / file.relative_to(stopped)).read_bytes()
    assert again.results.verdict == whole.results.verdict


def test_a_model_that_drops_too_much_is_not_shipped(config, tmp_path):
    kept = adapt(replace(config, max_drop=0, output=tmp_path / "run"), progress=Silent())
    assert kept.results.ships_base
    assert "How to deploy" not in (kept.model_folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ((99, 99), "needs 100 pairs of different texts .* and the text gives 99"),
        ((120, 60, 49), r"needs 50 pairs .* and the smallest part gives 49"),
        ((120, 50, 50), ""),
    ],
)
def test_too_few_pairs_are_counted_in_the_text_and_without_each_part(counts, why, monkeypatch):
    # A corpus is its number of pairs here.
    monkeypatch.setattr(
        "isospace.adaptation.candidates.related_texts",
        lambda config, corpus, most: (["query"] * corpus, ["text"] * corpus),
    )
    assert re.fullmatch(why, why_too_few_pairs(TrainConfig(), counts[0], counts[1:]))


def test_pairs_of_equal_texts_are_no_pairs(config, tmp_path):
    file = tmp_path / "equal.jsonl"
    rows = [json.dumps({"query": text, "answer": text}) for text in sentences(700, seed=3)]
    file.write_text("\n".join(rows))
    config = replace(config, text=replace(config.text, corpus=(str(file),)))
    task = load_task(config, Silent())
    with pytest.raises(UserError, match=r"`queries_only`: needs 100 pairs of different texts .* 0"):
        load_base_model(task, config.model, Silent())
    both = replace(task, config=replace(config, queries_only=False))
    task, _ = load_base_model(both, config.model, Silent())
    assert task.notes[-1].startswith("Whitening is fitted on single texts: ")


def test_adapting_the_adapted_model_again_names_the_base(adapted, config, tmp_path):
    again = replace(config, model=str(adapted.model_folder), output=tmp_path / "run")
    with pytest.raises(UserError, match="Router"):
        adapt(again, progress=Silent())


def test_a_small_folder_is_cross_validated(toy_model, tmp_path):
    rows = write_documents(tmp_path / "all.jsonl").read_text().splitlines()
    (tmp_path / "docs.jsonl").write_text("\n".join(rows[:160]))
    config = short_search(tmp_path / "docs.jsonl", toy_model, tmp_path / "run")
    config = replace(config, text=replace(config.text, held_out=20), queries_only=True)
    found = adapt(config, progress=Silent())
    assert "cross-validated" in found.results.verdict.protocol
    searched = read_candidates(found.run.folder)
    assert len(searched.candidates) == 4
    assert "Queries are mapped, and not fine-tuned" in searched.notes[-1]


OF_QUERIES = replace(find("pairs").config, batch_size=4, learning_rate=1e-3)
PASSAGES = [*sentences(7, seed=1), sentences(7, seed=1)[0]]  # the last belongs to two queries
QUERIES = sentences(8, seed=2)


@pytest.fixture
def encoder(toy_model):
    return load_encoder(str(toy_model))


@pytest.fixture
def query_pairs(encoder):
    return QueryPairs.encode(QUERIES, PASSAGES, encoder.embed)


def test_the_loss_compares_each_query_with_every_distinct_passage(encoder, query_pairs):
    slow = replace(OF_QUERIES, learning_rate=1e-12)
    found = list(train_queries(encoder, query_pairs, slow, updates=2))
    distinct, losses = list(dict.fromkeys(PASSAGES)), []
    assert len(query_pairs.passages) == len(distinct) == 7
    queries, passages = (unit_rows(encoder.embed(texts)) for texts in (QUERIES, distinct))
    for query, passage in zip(queries, PASSAGES, strict=True):
        cosines = passages @ query / OF_QUERIES.objective.temperature
        losses.append(np.log(np.exp(cosines).sum()) - cosines[distinct.index(passage)])
    assert np.mean(found) == pytest.approx(np.mean(losses), rel=1e-4)  # two batches, all queries


def test_training_finds_the_passages_and_is_repeated_bit_for_bit(encoder, query_pairs):
    twin = copy.deepcopy(encoder)
    losses = list(train_queries(encoder, query_pairs, OF_QUERIES, updates=40))
    assert np.mean(losses[-2:]) < 0.5 * np.mean(losses[:2])
    assert losses == list(train_queries(twin, query_pairs, OF_QUERIES, updates=40))
    assert np.array_equal(encoder.embed(QUERIES), twin.embed(QUERIES))


def test_no_update_begins_when_the_time_is_over(encoder, query_pairs):
    assert list(train_queries(encoder, query_pairs, OF_QUERIES, updates=9, seconds=-1)) == []


def test_a_loss_that_is_not_finite_ends_the_training(encoder, query_pairs):
    broken = replace(query_pairs, passages=torch.full_like(query_pairs.passages, torch.nan))
    with pytest.raises(Diverged):
        list(train_queries(encoder, broken, OF_QUERIES, updates=1))
