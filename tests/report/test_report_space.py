"""A run's sample, and what a report computes from it."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.torch import load_file
from toy import sentences

from isospace.config import CorpusConfig, TrainConfig
from isospace.encoders.loading import load_encoder
from isospace.objectives import SimCSE
from isospace.report.figures import spectrum
from isospace.training.run import Run
from isospace.training.train import train


def test_spectrum_of_known_singular_values():
    source = np.random.default_rng(0)
    left = np.linalg.qr(np.c_[np.ones(9), source.normal(size=(9, 3))])[0][:, 1:]  # centred columns
    right = np.linalg.qr(source.normal(size=(3, 3)))[0]
    vectors = left @ np.diag([6.0, 3.0, 1.0]) @ right + 5.0
    assert spectrum(vectors) == pytest.approx([0.6, 0.3, 0.1], abs=1e-9)
    assert spectrum(np.ones((5, 3), dtype=np.float32)).max() == 0.0


@pytest.fixture(scope="module")
def trained(toy_model, toy_corpus, tmp_path_factory) -> Run:
    config = TrainConfig(
        text=CorpusConfig(corpus=(str(toy_corpus),), near_duplicates=False),
        objective=SimCSE(head="none"),
        model=str(toy_model),
        batch_size=16,
        budget=(64, "sentences"),
        learning_rate=1e-2,
        evaluations=1,
        select="last",
        precision="float32",
        output=tmp_path_factory.mktemp("space") / "run",
    )
    return train(config).run


def test_a_run_keeps_held_out_sentences_and_their_vectors(trained, toy_model):
    sample = trained.sample
    assert sample is not None
    assert len(sample.sentences) == 40  # the held-out tenth, which is too little to split
    assert set(sample.sentences) < set(sentences(400))
    encoder = load_encoder(str(toy_model), device="cpu")
    assert np.allclose(sample.before, encoder.embed(sample.sentences), atol=2e-3)
    encoder.model.load_state_dict(load_file(trained.kept_weights))
    assert np.allclose(sample.after, encoder.embed(sample.sentences), atol=2e-3)
    assert not np.allclose(sample.before, sample.after, atol=2e-3)
    assert trained.sample_path.stat().st_size < 20_000
