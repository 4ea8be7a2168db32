"""Copies of a model: for sentence-transformers and ONNX, with their cards."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from routed import write_static
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Dropout,
    LayerNorm,
    Normalize,
    Pooling,
)
from torch import nn
from toy import run_card, sentences, write_toy_model

from isospace.commands.making import Export
from isospace.encoders.encoder import PROBES
from isospace.encoders.loading import as_encoder, load_encoder
from isospace.encoders.settings import POOLINGS, EncoderSettings, Prompts
from isospace.errors import UserError
from isospace.export import ship as shipping
from isospace.export.ship import encode_with_graph, export, save_onnx

TEXTS = [*sentences(40, seed=3), "", "x", "the cat " * 90, "😀 大きさ"]


def card(usage):
    return usage.text


def chain(encoder, *parts):
    encoder.model = SentenceTransformer(modules=[encoder.model[0], *parts], device="cpu")
    return encoder


@pytest.mark.parametrize("part", ["", "model"])
def test_a_run_is_exported_with_its_card(finished_copy, part):
    run, results = finished_copy, finished_copy.finished
    made = export(str(run.folder / part), "st")
    assert made.folder == run.folder / "st"
    assert made.gap <= 1e-6
    exported, ours = (load_encoder(str(f), device="cpu") for f in (made.folder, run.model_folder))
    assert np.array_equal(exported.embed(sentences(5)), ours.embed(sentences(5)))
    card = (made.folder / "README.md").read_text()
    scores = [f"{100 * one.pairs.mrr:.2f}" for one in (results.base, results.adapted)]
    of_text = [f"{results.corpus.sentences:,} sentences", f"`{results.corpus.digest}`"]
    for fact in (results.summary, *scores, *of_text, "WhitenedCSE", "base model: unknown"):
        assert fact in card
    assert str(run.folder.parent) not in card


def test_a_plain_model_gets_no_invented_history(toy_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = export(str(toy_model), "st")
    assert made.folder.resolve() == tmp_path / "bert-st"
    card = (made.folder / "README.md").read_text()
    assert "not known here" in card
    assert "Licence of this model: unknown" in card
    assert "license:" not in card
    assert "MRR" not in card


def test_a_start_that_is_gone_is_no_model_of_the_hub(finished_copy, tmp_path, monkeypatch):
    """`projects/start` was a folder when the run began; here it looks like a name of the Hub."""
    finished_copy.write_config(replace(finished_copy.config, model="projects/start"))
    monkeypatch.chdir(tmp_path)
    card = (export(str(finished_copy.folder), "st").folder / "README.md").read_text()
    assert "base_model" not in card
    assert "projects" not in card
    assert "# bert, " in card


def test_nothing_is_overwritten_and_no_unfinished_run_is_exported(finished_copy, tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UserError, match=r"`output` .*: exists already"):
        export(str(finished_copy.folder), "st", tmp_path)
    finished_copy.results_path.unlink()
    with pytest.raises(UserError, match="`resume`"):
        export(str(finished_copy.folder), "st")


def test_the_command_prints_what_was_found(finished_copy, capsys, monkeypatch):
    folder = str(finished_copy.folder)
    Export(folder, "st").run()
    assert "largest 1 - cosine" in capsys.readouterr().err
    monkeypatch.setattr(shipping, "save_onnx", lambda *_: 1e-9)
    Export(folder, "onnx", json=True).run()
    made = json.loads(capsys.readouterr().out)
    assert made == {"folder": f"{folder}/onnx", "gap": 1e-9, "limit": 1e-5}


@pytest.fixture(scope="module")
def onnx():
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def exported(onnx, tmp_path_factory):
    """A model of one layer with all module types, its folder, and what `save_onnx` said."""
    model = write_toy_model(tmp_path_factory.mktemp("one") / "bert", num_hidden_layers=1)
    torch.manual_seed(0)
    parts = Pooling(32, ("mean", "cls")), LayerNorm(64), Dropout(0.1)
    dense = Dense(64, 8, activation_function=nn.Identity())
    encoder = chain(load_encoder(str(model), device="cpu"), *parts, dense, Normalize())
    folder = tmp_path_factory.mktemp("onnx") / "model"
    return encoder, folder, save_onnx(encoder, folder, card)


def test_the_graph_gives_the_encoders_vectors(exported):
    encoder, folder, gap = exported
    assert gap <= 1e-9
    assert np.allclose(encode_with_graph(folder, TEXTS), encoder.embed(TEXTS), atol=1e-6)


def test_the_cards_code_runs_as_it_stands(exported):
    encoder, folder, _ = exported
    expected = encoder.embed(["one sentence", "another sentence"])
    assert np.allclose(run_card(folder)["vectors"], expected, atol=1e-6)


LAST_LAYER = ("cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("onnx")
@pytest.mark.parametrize("pooling", [LAST_LAYER, *(p for p in POOLINGS if p not in LAST_LAYER)])
def test_every_pooling(encoder, tmp_path, pooling):
    """Those of the last layer in one graph, which gives their vectors one after the other."""
    if pooling is LAST_LAYER:
        chain(encoder, Pooling(32, pooling))
    else:
        encoder = as_encoder(encoder, EncoderSettings(pooling=pooling))
    save_onnx(encoder, tmp_path / "model", card)
    vectors = encode_with_graph(tmp_path / "model", TEXTS)
    assert vectors.shape[1] == (32 * len(LAST_LAYER) if pooling is LAST_LAYER else 32)
    assert np.allclose(vectors, encoder.embed(TEXTS), atol=2e-6)


def test_the_prompt_of_each_side_is_part_of_the_text(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("isospace.export.ship.require_extra", lambda *_: None)
    monkeypatch.setattr("isospace.export.ship._write_graph", lambda encoder, path: None)
    asked: list[str] = []

    def record(folder, texts):
        asked.append(texts[0].removesuffix(PROBES[0]))
        side = {"query: ": "query", "text: ": "document"}.get(asked[-1])
        return encoder.embed([text.removeprefix(asked[-1]) for text in texts], side=side)

    monkeypatch.setattr("isospace.export.ship.encode_with_graph", record)
    encoder = encoder.with_prompts(Prompts("", "query: ", "text: "))
    save_onnx(encoder, tmp_path / "model", card)
    assert sorted(asked) == ["", "query: ", "text: "]
    card_text = (tmp_path / "model" / "README.md").read_text()
    assert "['text: ' + text" in card_text
    assert "queries 'query: ', documents 'text: '. The graph has none" in card_text


def test_word_vectors_and_missing_packages_are_refused(toy_model, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("isospace.export.ship.require_extra", lambda *_: None)
        with pytest.raises(UserError, match=r"not a transformer.* Use `to` st"):
            export(str(write_static(toy_model, tmp_path / "static")), "onnx", tmp_path / "onnx")
    monkeypatch.setattr("isospace.system.imports.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"isospace\[onnx\]"):
        export(str(toy_model), "onnx", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_a_model_that_is_no_graph_is_refused(encoder, tmp_path, monkeypatch):
    def fail(encoder, path):
        raise torch.onnx.OnnxExporterError("\x1b[96mThis is step 2/3\x1b[0m\nand a long report")

    monkeypatch.setattr("isospace.export.ship.require_extra", lambda *_: None)
    monkeypatch.setattr("isospace.export.ship._write_graph", fail)
    with pytest.raises(UserError, match=r"\(BertModel\) as a graph.*`to` st") as caught:
        save_onnx(encoder, tmp_path / "model", card)
    assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == []
