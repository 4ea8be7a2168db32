"""Hugging Face folders: what they hold, and what they say that they cannot."""

from __future__ import annotations

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Pooling
from toy import run_card, write_toy_t5
from transformers import BertConfig, BertModel

from isospace.encoders.loading import load_encoder
from isospace.encoders.pooling import POOLINGS
from isospace.errors import UserError
from isospace.export.ship import save_hf


@pytest.mark.parametrize("kind", [*POOLINGS, "T5 without its decoder"])
def test_the_code_on_the_card_gives_the_vectors(toy_model, tmp_path, kind):
    if kind in POOLINGS:
        encoder = load_encoder(str(toy_model), kind, device="cpu")
    else:
        encoder = load_encoder(str(write_toy_t5(toy_model, tmp_path / "t5")), device="cpu")
    assert save_hf(encoder, tmp_path / "model", lambda usage: usage.text) <= 1e-9
    expected = encoder.embed(["one sentence", "another sentence"])
    assert np.allclose(run_card(tmp_path / "model")["vectors"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ((Pooling(32, "mean"), Dense(32, 8)), "Dense"),
        ((Pooling(32, "max"),), "the pooling max"),
    ],
)
def test_what_a_folder_cannot_hold_is_refused_with_what_can(toy_model, tmp_path, parts, named):
    encoder = load_encoder(str(toy_model), device="cpu")
    encoder.model = SentenceTransformer(modules=[encoder.model[0], *parts], device="cpu")
    with pytest.raises(UserError, match=named):
        save_hf(encoder, tmp_path / "model", lambda usage: usage.text)
    assert list(tmp_path.iterdir()) == []


class OwnConfig(BertConfig):
    model_type = "of-nobody-else"


class OwnModel(BertModel):
    config_class = OwnConfig


def test_a_folder_that_transformers_cannot_use_is_not_written(toy_model, tmp_path):
    encoder = load_encoder(str(toy_model), device="cpu")
    encoder.model[0].model = OwnModel(OwnConfig(**encoder.model[0].model.config.to_dict()))
    with pytest.raises(UserError, match="of-nobody-else"):
        save_hf(encoder, tmp_path / "m", lambda usage: "")
    assert list(tmp_path.iterdir()) == []
