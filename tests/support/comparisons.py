"""What the tests of comparisons share."""

from __future__ import annotations

from pathlib import Path

import pytest

from isospace.config import CorpusConfig, TrainConfig
from isospace.objectives import SimCSE


@pytest.fixture
def base(toy_model: Path, toy_corpus: Path) -> TrainConfig:
    """What the candidates of a comparison share: a run of four updates."""
    return TrainConfig(
        text=CorpusConfig(corpus=(str(toy_corpus),), held_out=40),
        objective=SimCSE(head="none"),
        model=str(toy_model),
        batch_size=8,
        learning_rate=3e-5,
        budget=(32, "sentences"),
        evaluations=1,
        select="last",
        precision="float32",
    )
