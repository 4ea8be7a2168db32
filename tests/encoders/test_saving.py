"""Saved folders: modules, poolings, and vectors that stay the same."""

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
)
from torch import nn
from toy import sentences
from toy_decoder import END, write_toy_decoder

from isospace.encoders.encoder import PROBES, Encoder
from isospace.encoders.loading import is_causal, load_encoder
from isospace.encoders.saving import require_parity, require_read_alike, save_model
from isospace.encoders.settings import POOLINGS, EncoderSettings
from isospace.errors import UserError


@pytest.mark.parametrize("pooling", [None, *POOLINGS])
def test_every_pooling_is_sentence_transformers_own_and_survives(toy_model, tmp_path, pooling):
    encoder = load_encoder(str(toy_model), EncoderSettings(pooling=pooling), device="cpu")
    texts = [*sentences(50), "", "ünïcödé 😀 大きさ", "the " * 200]
    theirs = encoder.model.encode(texts, show_progress_bar=False)
    assert np.allclose(encoder.embed(texts), theirs, atol=1e-6)
    save_model(encoder, tmp_path / "model")
    again = load_encoder(str(tmp_path / "model"), device="cpu")
    assert again.pooling == encoder.pooling
    assert np.allclose(again.embed(texts), theirs, atol=1e-6)


def test_dense_and_normalise_survive_in_the_classic_layout(toy_model, tmp_path):
    encoder = load_encoder(str(toy_model), EncoderSettings(pooling="cls"), device="cpu")
    torch.manual_seed(0)
    dense = Dense(32, 8, activation_function=nn.Identity())
    encoder.model = SentenceTransformer(modules=[*encoder.model, dense, Normalize()], device="cpu")
    save_model(encoder, tmp_path / "model")
    types = [m["type"] for m in json.loads((tmp_path / "model" / "modules.json").read_text())]
    names = ("Transformer", "Pooling", "Dense", "Normalize")
    assert types == [f"sentence_transformers.models.{name}" for name in names]
    found = json.loads((tmp_path / "model" / "1_Pooling" / "config.json").read_text())
    assert found["pooling_mode_cls_token"] is True
    assert found["word_embedding_dimension"] == 32
    again = load_encoder(str(tmp_path / "model"), device="cpu")
    assert np.allclose(again.embed(sentences(5)), encoder.embed(sentences(5)), atol=1e-6)


def test_foreign_modules_are_refused_and_nothing_is_left(encoder, tmp_path):
    class Doubled(nn.Module):
        def forward(self, features):
            return {**features, "sentence_embedding": features["sentence_embedding"] * 2}

    encoder.model.append(Doubled())
    with pytest.raises(UserError, match="Doubled"):
        save_model(encoder, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_what_sentence_transformers_reads_in_another_way_is_refused(toy_model, tmp_path):
    """Was trained to its end, and then refused where it was written, for good."""
    rotary, counted = (
        write_toy_decoder(tmp_path / family, family, padding_side="left")
        for family in ("qwen3", "gpt2")
    )
    for folder in (toy_model, rotary):
        require_read_alike(load_encoder(str(folder), device="cpu"))
    with pytest.raises(UserError, match='set "padding_side": "right"'):
        require_read_alike(load_encoder(str(counted), device="cpu"))


def test_poolings_in_another_order_than_saved_ones_are_refused_before_training(toy_model):
    transformer = load_encoder(str(toy_model), device="cpu").model[0]

    def joined(*modes):
        modules = [transformer, Pooling(32, modes)]
        return Encoder(SentenceTransformer(modules=modules, device="cpu"), "model")

    require_read_alike(joined("cls", "mean"))
    with pytest.raises(UserError, match="in the order mean, cls"):
        require_read_alike(joined("mean", "cls"))


@pytest.mark.parametrize("family", ["qwen3", "llama", "llama, padded left", "gemma", "gpt2"])
def test_a_folder_is_read_at_the_last_token_as_sentence_transformers_reads_it(tmp_path, family):
    """Of the same folder, and of the one that is written; the empty text too."""
    family, *left = family.split(", ")
    texts = [*sentences(20), "x", *PROBES]
    folder = write_toy_decoder(tmp_path / "decoder", family, "left" if left else "right")
    encoder = load_encoder(str(folder), device="cpu")
    assert encoder.pooling == "lasttoken"
    assert is_causal(encoder)
    assert encoder.tokenizer.pad_token == END
    transformer = Transformer(str(folder))
    transformer.tokenizer.pad_token = transformer.tokenizer.eos_token
    theirs = SentenceTransformer(modules=[transformer, Pooling(32, "lasttoken")], device="cpu")
    np.testing.assert_allclose(encoder.embed(texts), theirs.encode(texts), atol=2e-6)
    save_model(encoder, tmp_path / "model")
    again = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(again.encode(texts), encoder.embed(texts), atol=2e-6)
    assert load_encoder(str(tmp_path / "model"), device="cpu").pooling == "lasttoken"


def test_an_old_folder_is_replaced_whole(toy_model, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "stale.bin").write_text("old")
    save_model(load_encoder(str(toy_model), device="cpu"), tmp_path / "model", card="# hello")
    assert not (tmp_path / "model" / "stale.bin").exists()
    assert (tmp_path / "model" / "README.md").read_text() == "# hello"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_vectors_of_another_direction_or_width_are_no_parity():
    zero, one = np.zeros((1, 3)), np.ones((1, 3))
    for other in (np.ones((1, 4)), np.full((1, 3), np.nan)):
        with pytest.raises(UserError, match="1 - cosine"):
            require_parity(one, other, "x", 1e-5)
    with pytest.raises(UserError, match="1 - cosine 1,"):
        require_parity(zero, one, "x", 1e-5)
    both = np.concatenate([zero, one])
    assert require_parity(both, both, "x", 0.0) <= 0
    assert require_parity(np.ones((1, 2)), np.array([[1.0, 1.002]]), "x", 1e-5) == pytest.approx(
        1 - 2.002 / np.sqrt(2 * (1 + 1.002**2)), rel=1e-6
    )
