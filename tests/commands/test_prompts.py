"""Commands put the prompt of a side before its texts, as sentence-transformers would."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from command_line import run, run_well
from prompted import KINDS, Prompted, load_again, write_prompted
from safetensors.torch import load_file
from searches import small_search
from toy import sentences, short_run, write_documents, write_rows

import isospace
from isospace.adaptation.fitting import FITTED_ON
from isospace.adaptation.results import read_candidates
from isospace.encoders.loading import load_encoder
from isospace.evaluation import geometry
from isospace.evaluation.benchmark import hard_pairs
from isospace.evaluation.own_data import load_own
from isospace.evaluation.pairs import PromptedEncoders
from isospace.evaluation.retrieval import evaluate_retrieval
from isospace.objectives import SimCSE
from isospace.operators.fitted_whitening import PairMoments
from isospace.operators.nearest import unit_rows
from isospace.system.progress import Silent
from isospace.training.examples import Examples
from isospace.training.prepare import load_data, make_accelerator, prepare

TEXTS, QUERIES = sentences(30), sentences(3, seed=5)


@pytest.fixture(scope="module")
def prompted(tmp_path_factory):
    return write_prompted(tmp_path_factory.mktemp("e5"), KINDS["e5"])


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def pairs(tmp_path):
    texts = sentences(480, seed=3)
    rows = [{"q": a, "a": b} for a, b in zip(texts[::2], texts[1::2], strict=True)]
    return write_rows(tmp_path / "pairs.jsonl", rows)


def with_weights(prompted, weights):
    """The same prompts before other weights."""
    other = Prompted(prompted.folder, prompted.query, prompted.document)
    other.model.load_state_dict({name: weights[name] for name in other.model.state_dict()})
    return other


def mrr(encode, pairs):
    return evaluate_retrieval(encode, pairs).mrr


def said(prompted):
    return f"queries {prompted.query!r}, documents {prompted.document!r}"


def test_encode(prompted, texts, tmp_path, capsys):
    ways = {"query": prompted.queries, "document": prompted.documents, None: prompted.plain}
    for side, encode in ways.items():
        words = ["--as", side] if side else []
        out = tmp_path / f"{side}.npy"
        run_well(capsys, "encode", prompted.folder, texts, "-o", out, *words)
        assert np.allclose(np.load(out), encode(TEXTS), atol=1e-6)
    out = tmp_path / "given.npy"
    words = ["--as", "query", "--query-prompt", "the cat: "]
    _, err = run_well(capsys, "encode", prompted.folder, texts, "-o", out, *words)
    assert "'the cat: ' before every text" in err
    assert np.allclose(np.load(out), prompted.vectors(TEXTS, "the cat: "), atol=1e-6)
    words = ["-o", tmp_path / "no.npy", "--query-prompt", "the cat: "]
    status, _, err = run(capsys, "encode", prompted.folder, texts, *words)
    assert status == 2
    assert "--as query" in err


def test_index_and_search(prompted, texts, tmp_path, capsys):
    wanted = unit_rows(prompted.queries(QUERIES)) @ unit_rows(prompted.documents(TEXTS)).T
    folder = tmp_path / "index"
    _, err = run_well(capsys, "index", texts, "--model", prompted.folder, "--to", folder)
    assert said(prompted) in err
    out, _ = run_well(capsys, "search", *QUERIES, "--index", folder, "-k", len(TEXTS), "--json")
    for cosines, query in zip(wanted, json.loads(out)["queries"], strict=True):
        found = {hit["text"]: hit["cosine"] for hit in query["hits"]}
        assert [found[text] for text in TEXTS] == pytest.approx(cosines.tolist(), abs=1e-5)
    status, _, err = run(capsys, "index", texts, "--to", folder, "--document-prompt", "the dog: ")
    assert status == 2
    assert "--document-prompt: " in err


def test_evaluate(prompted, tmp_path, pairs, capsys):
    words = ["--own", pairs, "--json"]
    out, _ = run_well(capsys, "evaluate", prompted.folder, *words)
    [own] = json.loads(out)["own"]
    found = evaluate_retrieval(prompted.encode, load_own(pairs).content)
    assert own["values"]["MRR"] == pytest.approx(found.mrr, abs=1e-5)
    assert abs(found.mrr - evaluate_retrieval(prompted.plain, load_own(pairs).content).mrr) > 1e-4


def test_train_on_pairs_of_documents(prompted, tmp_path):
    """A title or heading is a query, what stands under it a document; of crops one is each."""
    config = short_run(prompted.folder, write_documents(tmp_path / "documents"), tmp_path / "run")
    config = replace(
        config,
        text=replace(config.text, test_relation="heading-section"),
        objective=SimCSE(head="none"),
        views="pairs",
        relations=("title-passage", "crops"),
        batch_size=8,
        budget=(16, "sentences"),
        evaluations=1,
        precision="float32",
    )
    data, loop = prepare(config, make_accelerator(config), Silent())
    examples, tokenizer = loop.training.batches.examples, prompted.model.tokenizer
    prompts = (prompted.query, prompted.document)
    of_titles = np.flatnonzero(~examples.cropped)
    for rows in examples.rows[[of_titles[0], of_titles[-1]]]:
        for row, tokens, prompt in zip(rows, loop.training.batches.tokens, prompts, strict=True):
            [ids] = tokens.batch(np.array([row]))
            assert ids.tolist() == tokenizer(prompt + data.corpus[int(row)])["input_ids"]
    batch, drawn = loop.training.batches.batch(0), loop.training.batches.order.batch(0)
    assert 0 < examples.cropped[drawn].sum() < len(drawn)  # some are crops, and some are not
    views = zip(loop.training.plan.views, loop.training.batches.sources.of_view, strict=True)
    source_of = {view.text: source for view, source in views}
    for text, prompt in enumerate(prompts):
        before = tokenizer(prompt)["input_ids"][:-1]
        ids = batch.stack([source_of[text]]).input_ids
        assert ids[:, : len(before)].tolist() == [before] * len(drawn)

    finished = isospace.train(config)
    [start, last] = finished.run.evaluations()
    chooses, judged = data.held_out.pairs, data.benchmark.pairs
    sample = prompted.documents(data.held_out.sentences)
    assert start["uniformity"] == pytest.approx(geometry.uniformity(sample), abs=1e-4)
    trained = with_weights(prompted, load_file(finished.run.kept_weights))
    assert start["pairs_mrr"] == pytest.approx(mrr(prompted.encode, chooses), abs=1e-5)
    assert last["pairs_mrr"] == pytest.approx(mrr(trained.encode, chooses), abs=1e-5)
    results = finished.results
    for scores, encoder in ((results.base, prompted), (results.adapted, trained)):
        assert scores.pairs.mrr == pytest.approx(mrr(encoder.encode, judged), abs=1e-5)
        assert scores.pairs.mrr != pytest.approx(mrr(encoder.plain, judged), abs=1e-4)
    shipped, ours = load_again(finished.model_folder), load_encoder(str(finished.model_folder))
    assert np.allclose(shipped.encode_query(TEXTS), ours.embed(TEXTS, side="query"), atol=1e-6)
    card = (finished.model_folder / "README.md").read_text()
    assert "encode_query" in card
    assert said(prompted) in card


def test_adapt(small_split, prompted, tmp_path):
    """In every candidate, in what is said of the queries, and in what is left at the end."""
    config = replace(small_search(tmp_path, prompted.folder), budget=(50_000, "tokens"))
    finished = isospace.adapt(config)
    run, results, searched = finished.run, finished.results, read_candidates(finished.run.folder)
    tried = {one.name: one for one in searched.candidates}
    data = load_data(run.config)
    chooses, judged = hard_pairs(data.corpus, data.held_out), data.benchmark.pairs
    definitions = data.other_text.validation_pairs["definitions"]
    trained = with_weights(prompted, load_file(run.kept_weights))
    pairs = Examples.from_corpus(run.config, data.corpus).related_texts(FITTED_ON)
    assert tried["the base model"].mrr == pytest.approx(mrr(prompted.encode, chooses), abs=2e-4)
    assert tried["the base model"].mrr != pytest.approx(mrr(prompted.plain, chooses), abs=2e-3)
    fine_tuned = "the fine-tuned model, whitened by pairs, power "
    name = next(name for name in tried if name.startswith(fine_tuned))
    power = float(name.removeprefix(fine_tuned))
    mapped = whitened_by(trained, *pairs, power)
    assert tried[name].mrr == pytest.approx(mrr(mapped, chooses), abs=2e-4)
    whitened = whitened_by(prompted, *pairs)
    mapped = tried["the base model, whitened by pairs, power 1"]
    assert mapped.mrr == pytest.approx(mrr(whitened, chooses), abs=2e-4)
    change = mrr(whitened, definitions) - mrr(prompted.encode, definitions)
    assert mapped.other_text["definitions"].mean == pytest.approx(change, abs=2e-4)
    assert results.base.pairs.mrr == pytest.approx(mrr(prompted.encode, judged), abs=2e-4)
    model = load_again(finished.model_folder)
    shipped = PromptedEncoders(model.encode_query, model.encode_document, model.encode)
    expected = results.base if results.ships_base else results.adapted
    assert mrr(shipped, judged) == pytest.approx(expected.pairs.mrr, abs=2e-4)
    assert said(prompted) in (finished.model_folder / "README.md").read_text()


def whitened_by(encoder, first, second, power=1.0):
    """An encoder behind which queries and documents are whitened, whatever the side of a text."""
    sides = encoder.queries(first), encoder.documents(second)
    kernel = PairMoments.from_pairs(*map(torch.from_numpy, sides)).fit(power).kernel.numpy()

    def mapped(encode):
        return lambda texts: encode(texts) @ kernel

    return PromptedEncoders(*map(mapped, (encoder.queries, encoder.documents, encoder.plain)))
