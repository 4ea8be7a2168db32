"""Plain Hugging Face models: ours say how they make vectors, of others a warning says what is assumed."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from searches import short_search
from searches import write_documents as write_titled
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from toy import sentences, short_run, write_documents, write_toy_model
from toy_decoder import write_toy_decoder
from transformers import AutoModel

import isospace
from isospace.cli import main
from isospace.encoders.loading import KEY, load_encoder, weights_hash
from isospace.encoders.pooling import POOLINGS
from isospace.encoders.saving import save_model
from isospace.errors import UserError
from isospace.explore.session import open_session
from isospace.export.hf import save_hf
from isospace.export.ship import export
from isospace.search import SearchIndex
from isospace.system.quiet import saying_once

TEXTS = [*sentences(5), "the cat sat on the mat " * 20]
ASSUMED = "a plain Hugging Face model does not say how it makes vectors"
PROMPTS = {"query": "the cat ", "document": "a dog ", "other": "on the "}


@pytest.fixture
def plain(tmp_path):
    """A model that no test before has loaded."""
    return write_toy_model(tmp_path / "plain")


def assumed(caplog):
    """The warnings of what is assumed, of which the last is forgotten."""
    found = [record.getMessage() for record in caplog.records if ASSUMED in record.getMessage()]
    caplog.clear()
    return found


def card(usage):
    return usage.text


def as_sentence_transformers_reads(plain, tmp_path):
    """A model read at [CLS], cut to 20 tokens, normalised, with prompts; its folder and itself."""
    first = SentenceTransformer(str(plain), device="cpu")[0]
    first.max_seq_length = 20
    modules = [first, Pooling(32, "cls"), Normalize()]
    model = SentenceTransformer(
        modules=modules, device="cpu", prompts=PROMPTS, default_prompt_name="other"
    )
    model.save_pretrained(str(tmp_path / "st"), create_model_card=False)
    return tmp_path / "st", model


def test_an_export_is_read_back_as_it_was(plain, tmp_path, caplog):
    folder, model = as_sentence_transformers_reads(plain, tmp_path)
    export(str(folder), "hf", tmp_path / "hf")
    again = load_encoder(str(tmp_path / "hf"), device="cpu")
    for side, encode in {
        None: model.encode, "query": model.encode_query, "document": model.encode_document,
    }.items():  # fmt: skip
        expected = encode(TEXTS, show_progress_bar=False)
        assert np.allclose(again.embed(TEXTS, side=side), expected, atol=1e-6)
    assert (again.pooling, again.max_length, again.model.prompts) == ("cls", 20, PROMPTS)
    assert weights_hash(again) == weights_hash(load_encoder(str(folder), device="cpu"))
    assert assumed(caplog) == []


@pytest.mark.parametrize("pooling", POOLINGS)
def test_an_export_remembers_every_pooling(plain, tmp_path, pooling):
    encoder = load_encoder(str(plain), pooling, device="cpu")
    save_hf(encoder, tmp_path / "hf", card)
    again = load_encoder(str(tmp_path / "hf"), device="cpu")
    assert again.pooling == pooling
    assert np.allclose(again.embed(TEXTS), encoder.embed(TEXTS), atol=1e-6)


def test_an_export_is_still_a_plain_folder(plain, tmp_path):
    folder, _ = as_sentence_transformers_reads(plain, tmp_path)
    export(str(folder), "hf", tmp_path / "hf")
    assert not (tmp_path / "hf" / "modules.json").exists()
    settings = AutoModel.from_pretrained(tmp_path / "hf").config.to_dict()
    assert settings.pop(KEY)["pooling"] == "cls"
    assert settings.pop("prompts") == PROMPTS
    assert settings.pop("default_prompt_name") == "other"
    before = AutoModel.from_pretrained(plain).config.to_dict()
    changing = {"_name_or_path", "use_cache"}
    assert {k: v for k, v in settings.items() if k not in changing} == {
        k: v for k, v in before.items() if k not in changing
    }


def test_what_is_given_comes_before_what_an_export_says(plain, tmp_path):
    folder, _ = as_sentence_transformers_reads(plain, tmp_path)
    export(str(folder), "hf", tmp_path / "hf")
    given = load_encoder(str(tmp_path / "hf"), "mean", "cpu", "the red ", "")
    assert (given.pooling, given.prompts.query, given.prompts.document) == ("mean", "the red ", "")


def test_a_later_model_does_not_hold_what_the_export_said(plain, tmp_path):
    folder, _ = as_sentence_transformers_reads(plain, tmp_path)
    export(str(folder), "hf", tmp_path / "hf")
    save_model(load_encoder(str(tmp_path / "hf"), "mean", device="cpu"), tmp_path / "later")
    settings = json.loads((tmp_path / "later" / "config.json").read_text())
    assert not {KEY, "prompts", "default_prompt_name"} & set(settings)


@pytest.mark.parametrize(
    ("change", "named"), [({"pooling": "best"}, "pooling"), ({"max_length": "long"}, "max_length")]
)
def test_what_an_export_cannot_have_said_is_refused(plain, tmp_path, change, named):
    save_hf(load_encoder(str(plain), device="cpu"), tmp_path / "hf", card)
    path = tmp_path / "hf" / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {KEY: content[KEY] | change}))
    with pytest.raises(
        UserError, match=rf"config\.json, isospace: {named}: .*Export the model again"
    ):
        load_encoder(str(tmp_path / "hf"), device="cpu")


def test_python_users_read_what_is_assumed_in_the_log(plain, tmp_path, caplog):
    isospace.load(str(plain))
    (said,) = assumed(caplog)
    assert said.startswith(f"{plain}: ")
    assert "pooling mean, texts cut to 64 tokens, no prompts of its own, no normalisation" in said
    assert "`pooling`" in said
    isospace.load(str(plain), pooling="cls")
    (said,) = assumed(caplog)
    assert "pooling cls" not in said
    export(str(plain), "st", tmp_path / "st", pooling="cls")
    caplog.clear()
    assert isospace.load(str(tmp_path / "st")).encoder.pooling == "cls"
    assert assumed(caplog) == []


def test_the_pooling_of_a_decoder_is_said(plain, tmp_path, caplog):
    load_encoder(str(write_toy_decoder(tmp_path / "decoder")), device="cpu")
    assert "pooling lasttoken" in assumed(caplog)[0]


def test_one_warning_is_said_once_within_the_outermost_context(plain, caplog):
    with saying_once():
        load_encoder(str(plain), device="cpu")
        with saying_once():
            load_encoder(str(plain), device="cpu")
        load_encoder(str(plain), device="cpu")
    assert len(assumed(caplog)) == 1
    load_encoder(str(plain), device="cpu")
    assert len(assumed(caplog)) == 1


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(sentences(400)) + "\n", encoding="utf-8")
    return path


def words_of(command, plain, texts, tmp_path):
    """What a user types."""
    out, training = tmp_path / "out", ["--batch-size", "16", "--budget", "64", "sentences"]
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("".join(f"{a},{b}\n" for a, b in itertools.pairwise(TEXTS)))
    return {
        "train": ["--corpus", texts, "--model", plain, *training, "--output", out],
        "evaluate": [plain, "--own", pairs],
        "encode": [plain, texts, "-o", tmp_path / "vectors.npy"],
        "index": [texts, "--model", plain, "--to", out],
        "neighbours": [plain, "--corpus", texts, "--query", "a cat"],
        "whiten": [plain, "--corpus", texts, "--output", out],
        "merge": [plain, plain, "--to", out],
        "export": [plain, "--to", "st", "--output", out],
        "compare": ["simcse", "--corpus", texts, "--model", plain, *training, "--output", out,
                    "--seeds", "2"],
        "corpus": [texts, "--model", plain],
    }[command]  # fmt: skip


@pytest.mark.parametrize(
    "command",
    ["train", "evaluate", "encode", "index", "neighbours", "whiten", "merge", "export", "compare",
     "corpus"],
)  # fmt: skip
def test_every_command_says_what_is_assumed_once(plain, texts, tmp_path, caplog, capsys, command):
    status = main([command, *map(str, words_of(command, plain, texts, tmp_path))])
    assert status == 0, capsys.readouterr().err
    assert len(assumed(caplog)) == 1


def test_a_ladder_says_what_is_assumed_once(plain, tmp_path, caplog):
    documents = write_titled(tmp_path / "documents.jsonl")
    isospace.adapt(short_search(documents, plain, tmp_path / "ladder"))
    assert len(assumed(caplog)) == 1


def test_search_says_what_is_assumed_and_follows_the_index(plain, texts, tmp_path, caplog, capsys):
    for pooling in (None, "cls"):
        folder = str(tmp_path / f"index-{pooling}")
        given = ["--pooling", pooling] if pooling else []
        assert main(["index", str(texts), "--model", str(plain), "--to", folder, *given]) == 0
        assumed(caplog)
        assert main(["search", "a cat", "--index", folder, "--json"]) == 0
        (said,) = assumed(caplog)
        assert ("pooling mean" in said) == (pooling is None)
    assert SearchIndex.open(folder).encoder.pooling == "cls"
    assert main(["index", str(texts), "--to", folder, "--pooling", "mean"]) == 2
    assert "keeps those that it was made with" in capsys.readouterr().err


def test_explore_says_what_is_assumed(plain, caplog):
    session = open_session([str(plain)], TEXTS, "texts")
    assert len(assumed(caplog)) == 1
    given = open_session([str(plain)], TEXTS, "texts", pooling="cls")
    assert not np.allclose(session.models[0].vectors, given.models[0].vectors)


def at_cls(plain, texts):
    """Vectors at [CLS], as sentence-transformers makes them."""
    first = SentenceTransformer(str(plain), device="cpu")[0]
    model = SentenceTransformer(modules=[first, Pooling(32, "cls")], device="cpu")
    return model.encode(texts, show_progress_bar=False)


def test_neighbours_are_found_by_the_pooling_that_is_given(plain, texts, capsys):
    lines = texts.read_text().splitlines()
    words = ["neighbours", str(plain), "--corpus", str(texts), "--query", lines[0], "-k", "1"]
    assert main([*words, "--pooling", "cls", "--json"]) == 0
    vectors = at_cls(plain, lines)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert lines[1 + int(np.argmax(unit[1:] @ unit[0]))] in capsys.readouterr().out


def test_the_command_line_names_the_options(plain, texts, tmp_path):
    """And workers, which have no console, add nothing."""
    output = tmp_path / "vectors.npy"
    words = ["encode", str(plain), str(texts), "-o", str(output), "--workers", "2"]
    words += ["--pooling", "cls"]
    ended = subprocess.run(
        [sys.executable, "-m", "isospace", *words], capture_output=True, text=True, check=True
    )
    assert ended.stderr.count(ASSUMED) == 1
    assert "give --pooling, --query-prompt or --document-prompt" in ended.stderr
    assert "--to st" in ended.stderr
    expected = at_cls(plain, texts.read_text().splitlines())
    assert np.allclose(np.load(output), expected, atol=1e-6)


def test_processes_that_share_a_run_say_it_once(plain, texts, tmp_path):
    words = ["train", "--corpus", str(texts), "--model", str(plain), "--batch-size", "16"]
    words += ["--budget", "64", "sentences", "--output", str(tmp_path / "run"), "--nproc", "2"]
    ended = subprocess.run(
        [sys.executable, "-m", "isospace", *words], capture_output=True, text=True, check=True
    )
    assert ended.stderr.count(ASSUMED) == 1


def test_documents_are_adapted_from_an_export_as_from_the_model(plain, tmp_path):
    """A run that begins with an export begins with the pooling of the model."""
    folder, _ = as_sentence_transformers_reads(plain, tmp_path)
    export(str(folder), "hf", tmp_path / "hf")
    corpus = write_documents(tmp_path / "documents")
    run = isospace.train(short_run(tmp_path / "hf", corpus, tmp_path / "run")).run
    assert load_encoder(str(run.model_folder)).pooling == "cls"
