"""Encoders that fit in less memory: frozen weights in bfloat16."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from loops import CONFIG
from sentence_transformers import SentenceTransformer
from toy import sentences, short_run
from toy_decoder import write_toy_decoder

from isospace.encoders.loading import load_encoder
from isospace.encoders.parity import cosines
from isospace.errors import UserError
from isospace.objectives import DiffCSE, ESimCSE, WhitenedCSE
from isospace.training.requirements import require_plain_passes
from isospace.training.train import train


def test_objectives_that_edit_embeddings_are_refused():
    halves = replace(CONFIG, half_weights=True, lora=4, objective=DiffCSE())
    with pytest.raises(UserError, match=r"`half_weights`: diffcse "):
        require_plain_passes(halves)
    require_plain_passes(replace(halves, objective=ESimCSE()))


@pytest.mark.parametrize("family", ["bert", pytest.param("qwen3", marks=pytest.mark.exhaustive)])
def test_adapters_learn_beside_weights_in_half_precision(toy_model, toy_corpus, tmp_path, family):
    """What ships is bfloat16, and is what was measured."""
    model = toy_model if family == "bert" else write_toy_decoder(tmp_path / "model", family)
    config = replace(
        short_run(model, toy_corpus, tmp_path / "run"),
        objective=WhitenedCSE(num_views=2, groups=4),
        lora=4,
        half_weights=True,
        learning_rate=1e-2,
        dropout=0.1,
        select="last",
    )
    finished = train(config)
    run = finished.run
    start = load_encoder(str(model), device="cpu", half=True)
    shipped = load_encoder(str(run.model_folder), device="cpu", half=True)
    assert {p.dtype for p in shipped.parameters()} == {torch.bfloat16}
    assert shipped.model.state_dict().keys() == start.model.state_dict().keys()  # no adapters
    texts = sentences(20)
    moved = 1 - cosines(start.embed(texts), shipped.embed(texts))
    theirs = SentenceTransformer(str(run.model_folder), device="cpu")
    assert {p.dtype for p in theirs.parameters()} == {torch.bfloat16}
    read = load_encoder(str(run.folder), device="cpu")  # as float32
    for other in (theirs.encode(texts), read.embed(texts)):
        assert 10 * (1 - cosines(shipped.embed(texts), other)).max() < moved.min()
