"""A small decoder, trained by adapters for its last token."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sentence_transformers import SentenceTransformer
from toy import sentences, short_run
from toy_decoder import write_toy_decoder

from isospace.encoders.loading import is_causal, load_encoder
from isospace.objectives import SimCSE
from isospace.training.train import train

TEXTS = sentences(30, seed=7)


def test_the_model_is_read_as_it_was_trained(toy_corpus, tmp_path):
    model = write_toy_decoder(tmp_path / "model", "qwen3", padding_side="left")
    config = short_run(model, toy_corpus, tmp_path / "run")
    run = train(replace(config, objective=SimCSE(), dropout=0.1, lora=4)).run
    encoder = load_encoder(str(run.folder), device="cpu")
    start = load_encoder(run.config.model, device="cpu")
    assert is_causal(start)
    assert is_causal(encoder)
    assert encoder.pooling == "lasttoken" == run.finished.training.pooling
    assert np.abs(encoder.embed(TEXTS) - start.embed(TEXTS)).max() > 1e-3
    theirs = SentenceTransformer(str(run.model_folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(encoder.embed(TEXTS), theirs, atol=1e-6)
