"""Plain Hugging Face models: ours say how they make vectors, of others a warning says what is assumed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from toy import sentences, write_toy_model

import isospace
from isospace.encoders.loading import KEY, load_encoder, weights_hash
from isospace.errors import UserError
from isospace.export.hf import save_hf
from isospace.export.ship import export

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
