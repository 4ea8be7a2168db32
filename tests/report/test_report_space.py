"""A run's sample, and what a report computes from it."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.torch import load_file
from toy import sentences

from isospace.config import CorpusConfig, TrainConfig
from isospace.encoders.loading import load_encoder
from isospace.objectives import SimCSE
from isospace.report.space import (
    kept_shares,
    most_changed,
    spectrum,
)
from isospace.training.run import Run, Sample
from isospace.training.train import train


def random_sample(count: int = 40, moved: float = 0.5) -> Sample:
    source = np.random.default_rng(3)
    before = source.normal(size=(count, 6)).astype(np.float32)
    after = before + moved * source.normal(size=(count, 6)).astype(np.float32)
    return Sample(tuple(sentences(count)), before, after)


def slow_neighbours(vectors: np.ndarray, row: int, count: int) -> list[int]:
    """The rows of largest cosine with one row, by a loop."""
    cosines = {
        other: float(v @ vectors[row] / np.linalg.norm(v) / np.linalg.norm(vectors[row]))
        for other, v in enumerate(vectors)
        if other != row
    }
    return sorted(cosines, key=lambda other: -cosines[other])[:count]


def test_spectrum_of_known_singular_values():
    source = np.random.default_rng(0)
    left = np.linalg.qr(np.c_[np.ones(9), source.normal(size=(9, 3))])[0][:, 1:]  # centred columns
    right = np.linalg.qr(source.normal(size=(3, 3)))[0]
    vectors = left @ np.diag([6.0, 3.0, 1.0]) @ right + 5.0
    assert spectrum(vectors) == pytest.approx([0.6, 0.3, 0.1], abs=1e-9)
    assert spectrum(np.ones((5, 3), dtype=np.float32)).max() == 0.0


def test_kept_shares_against_a_loop():
    sample = random_sample()
    kept = kept_shares(sample)
    for row in range(len(sample.sentences)):
        near = [set(slow_neighbours(v, row, 10)) for v in (sample.before, sample.after)]
        assert kept[row] == len(near[0] & near[1]) / 10


def test_neighbours_by_hand():
    """On a circle: angles in degrees before, and after the third sentence has moved."""
    angles = {"a": (10, 10), "b": (20, 20), "c": (40, 200), "d": (80, 80), "e": (90, 90), "f": (170, 170), "g": (180, 180)}  # fmt: skip
    before, after = (
        np.stack([[np.cos(np.radians(x[i])), np.sin(np.radians(x[i]))] for x in angles.values()])
        for i in (0, 1)
    )
    sample = Sample(tuple(angles), before, after)
    [(sentence, *lists)] = most_changed(sample, np.array([1, 1, 0, 1, 1, 1, 1.0]), 1)
    assert sentence == "c"
    assert [[near for near, _, _ in one] for one in lists] == [list("badef"), list("gfeda")]
    for one in lists:
        assert [shared for _, _, shared in one] == [False, True, True, True, True]


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
