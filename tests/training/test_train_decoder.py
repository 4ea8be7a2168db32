"""A small decoder from text to the folders that it leaves: train, evaluate, encode, whiten, export."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from toy import sentences, short_run
from toy_decoder import write_toy_decoder

from isospace.cli import main
from isospace.encoders.loading import is_causal, load_encoder
from isospace.evaluation.evaluate import evaluate
from isospace.evaluation.evaluate_config import EvaluateConfig
from isospace.objectives import SimCSE
from isospace.training.run import Run
from isospace.training.train import train

TEXTS = sentences(30, seed=7)


@pytest.fixture(scope="module")
def run(toy_corpus, tmp_path_factory) -> Run:
    """Adapters for the last token."""
    folder = tmp_path_factory.mktemp("decoder")
    model = write_toy_decoder(folder / "model", "qwen3", padding_side="left")
    config = replace(
        short_run(model, toy_corpus, folder / "run"), objective=SimCSE(), dropout=0.1, lora=4
    )
    return train(config).run


def test_the_model_is_read_as_it_was_trained(run):
    encoder = load_encoder(str(run.folder), device="cpu")
    start = load_encoder(run.config.model, device="cpu")
    assert is_causal(start)
    assert is_causal(encoder)
    assert encoder.pooling == "lasttoken" == run.finished.training.pooling
    assert np.abs(encoder.embed(TEXTS) - start.embed(TEXTS)).max() > 1e-3
    theirs = SentenceTransformer(str(run.model_folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(encoder.embed(TEXTS), theirs, atol=1e-6)


def test_it_is_evaluated_and_its_vectors_are_written(run, tmp_path):
    pairs = tmp_path / "pairs.csv"
    rows = [f"{a},{b}\n" for a, b in zip(TEXTS[::2], TEXTS[1::2], strict=True)]
    pairs.write_text("anchor,positive\n" + "".join(rows))
    [found] = evaluate(str(run.folder), EvaluateConfig(own=pairs)).to_json()["own"]
    assert found["n"] == 15
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS) + "\n")
    assert main(["encode", str(run.folder), str(texts), "--output", str(tmp_path / "v.npy")]) == 0
    expected = load_encoder(str(run.folder), device="cpu").embed(TEXTS)
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=2e-6)
