"""Encoders that fit in less memory: gradient checkpointing, and frozen weights in bfloat16."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from loops import CONFIG, make_loop
from sentence_transformers import SentenceTransformer
from toy import sentences, short_run
from toy_decoder import write_toy_decoder

from isospace.encoders import fast
from isospace.encoders.loading import load_encoder
from isospace.encoders.parity import cosines
from isospace.encoders.trained import checkpoint_layers
from isospace.errors import UserError
from isospace.objectives import DCL, SCD, DiffCSE, ESimCSE, Iso, WhitenedCSE
from isospace.training.requirements import require_plain_passes
from isospace.training.step import backward
from isospace.training.train import train
from isospace.views import View

SETTINGS = {
    "two rates": {"objective": SCD(projector=(16, 16))},
    "clean negatives": {"objective": Iso()},
    "pairs": {"views": "pairs", "objective": WhitenedCSE(num_views=3, groups=4)},
    "in passes": {"pass_tokens": 60},
    "adapters": {"lora": 4},
}


@pytest.mark.parametrize("more", SETTINGS.values(), ids=SETTINGS)
def test_layers_that_run_again_give_the_same_gradients(toy_model, tmp_path, monkeypatch, more):
    """Under dropout, that of each view."""
    monkeypatch.setattr(fast, "refusal", lambda model: "other draws")
    found = []
    for again in (False, True):
        config = replace(CONFIG, gradient_checkpointing=again, **more)
        loop = make_loop(toy_model, tmp_path, config)
        rates = loop.training.encoder.noise.rates
        terms = backward(loop.training, 0).terms
        named = loop.training.encoder.named_parameters()
        found.append((terms, {name: p.grad for name, p in named if p.grad is not None}))
        assert loop.training.encoder.noise.rates == rates
        assert loop.training.encoder.training
    (terms, whole), (same, gradients) = found
    assert same == terms
    assert gradients.keys() == whole.keys()
    for name, expected in whole.items():
        torch.testing.assert_close(gradients[name], expected, msg=name)


def kept_bytes(encoder):
    """What one view of 16 texts keeps for the backward pass."""
    batch = encoder.tokens.collate(encoder.tokens.ids(sentences(16)))
    kept = {}

    def note(tensor):
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        encoder.train()(batch, [View(dropout=0.1)])
    weights = {p.data_ptr() for p in encoder.parameters()}
    return sum(size for place, size in kept.items() if place not in weights)


@pytest.mark.parametrize("family", ["bert", "qwen3"])
def test_less_is_kept_for_the_backward_pass(toy_model, tmp_path, family):
    model = toy_model if family == "bert" else write_toy_decoder(tmp_path / "model", family)
    plain, again = (load_encoder(str(model), device="cpu") for _ in range(2))
    checkpoint_layers(again)
    assert kept_bytes(again) < kept_bytes(plain) / 3
    texts = sentences(9)
    np.testing.assert_array_equal(again.embed(texts), plain.embed(texts))


def test_what_steps_into_layers_is_refused():
    config = replace(CONFIG, gradient_checkpointing=True)
    require_plain_passes(replace(config, objective=DCL()))
    with pytest.raises(UserError, match="`gradient_checkpointing` True: diffcse"):
        require_plain_passes(replace(config, objective=DiffCSE()))
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
        gradient_checkpointing=True,
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
