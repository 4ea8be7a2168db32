"""Runs that train adapters alone."""

from __future__ import annotations

import random
import signal
from dataclasses import replace

import pytest
import torch
from loops import CONFIG, make_loop, small
from resumed import assert_same_run, wait_for_steps
from sentence_transformers import SentenceTransformer
from toy import sentences
from warm import WarmProcess

from isospace.encoders import adapters
from isospace.encoders.loading import load_encoder
from isospace.objectives import CT, ArcCSE, SimCSE, WhitenedCSE
from isospace.training.step import backward
from isospace.training.train import train

CONFIG = replace(CONFIG, lora=4, learning_rate=1e-2)
SETTINGS = {
    "dropout": {},
    "clean and edited views": {"objective": ArcCSE()},
    "pairs": {"views": "pairs", "objective": WhitenedCSE(num_views=3, groups=4)},
    "accumulated": {"accumulate": 2},
    "in passes": {"pass_tokens": 60, "views": "pairs"},
    "a momentum copy": {"objective": small("mocose")},
    "another tower": {"objective": small("ct")},
    "a decoder": {"objective": small("tsdae")},
    "a discriminator": {"objective": small("diffcse")},
    "spans": {"objective": small("declutr")},
    "convolutions": {"objective": small("is-bert")},
    "a template": {"objective": small("promptbert")},
}


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("more", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("precision", ["no", pytest.param("bf16", marks=pytest.mark.exhaustive)])
def test_only_adapters_move(toy_model, tmp_path, more, precision):
    loop = make_loop(toy_model, tmp_path, replace(CONFIG, **more), precision=precision)
    before = weights(loop.training.encoder.model)
    assert len(list(loop)) == 4
    after = weights(loop.training.encoder.model)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    layers = {name for name in before if adapters.OUT in name and ".layer." in name}
    assert layers <= moved
    assert all(adapters.IN in name or adapters.OUT in name for name in moved)


def test_another_tower_trains_what_the_encoder_trains(toy_model, tmp_path):
    loop = make_loop(toy_model, tmp_path, replace(CONFIG, objective=CT()))
    towers = [part for part in loop.training.auxiliaries.values() if hasattr(part, "encoder")]
    for tower in towers:
        names = {name for name, p in tower.encoder.named_parameters() if p.requires_grad}
        assert names
        assert all(adapters.IN in name or adapters.OUT in name for name in names)
    assert towers


def test_a_batch_in_passes_has_the_gradient_of_the_whole(toy_model, tmp_path):
    found = []
    for tokens in (None, 60):
        loop = make_loop(toy_model, tmp_path, replace(CONFIG, pass_tokens=tokens))
        loop.training.encoder.double()
        loop.training.encoder.noise.set(0.0)
        backward(loop.training, 0)
        named = loop.training.encoder.named_parameters()
        found.append({name: p.grad for name, p in named if p.grad is not None})
    whole, parts = found
    assert parts.keys() == whole.keys()
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.exhaustive
def test_a_killed_run_goes_on_to_the_same_model(config, toy_model):
    """What is shipped is plain, moved, and measured as it is."""
    config = replace(
        config,
        objective=SimCSE(),
        lora=4,
        checkpoint_minutes=0,
        output=config.output.with_name("whole"),
    )
    finished = train(config)
    whole = finished.run
    killed = replace(config, output=config.output.with_name("killed"))
    process = WarmProcess(train, killed)
    wait_for_steps(killed.output, random.Random(6).randint(1, 15), process)
    process.send(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert_same_run(whole, train(resume=killed.output).run)
    start = weights(load_encoder(str(toy_model), device="cpu").model)
    shipped = weights(load_encoder(str(whole.model_folder), device="cpu").model)
    assert start.keys() == shipped.keys()
    moved = {name for name in start if not torch.equal(start[name], shipped[name])}
    linear = {name for name in start if "dense.weight" in name or "attention.self" in name}
    assert "0.model.encoder.layer.0.intermediate.dense.weight" in moved
    assert moved <= {name for name in linear if name.endswith(".weight")}
    texts = sentences(5)
    theirs = SentenceTransformer(str(whole.model_folder), device="cpu")
    ours = load_encoder(str(whole.folder), device="cpu")
    torch.testing.assert_close(
        torch.from_numpy(theirs.encode(texts)),
        torch.from_numpy(ours.embed(texts)),
        atol=1e-6,
        rtol=0,
    )
    kept = next(
        e for e in finished.results.evaluations if e["step"] == finished.results.choice.step
    )
    assert kept["pairs_loss"] != finished.results.evaluations[0]["pairs_loss"]
