"""Runs that train adapters alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from loops import CONFIG, make_loop, small

from isospace.encoders import adapters
from isospace.objectives import CT, ArcCSE, WhitenedCSE

CONFIG = replace(CONFIG, lora=4, learning_rate=1e-2)
SETTINGS = {
    "clean and edited views": {"objective": ArcCSE()},
    "pairs": {"views": "pairs", "objective": WhitenedCSE(num_views=3, groups=4)},
    "in passes": {"pass_tokens": 60, "views": "pairs"},
    "a momentum copy": {"objective": small("mocose")},
    "another tower": {"objective": small("ct")},
    "a discriminator": {"objective": small("diffcse")},
    "a template": {"objective": small("promptbert")},
    "a decoder": {"objective": small("tsdae")},
    "spans": {"objective": small("declutr")},
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
    [tower] = [part for part in loop.training.auxiliaries.values() if hasattr(part, "encoder")]
    names = {name for name, p in tower.encoder.named_parameters() if p.requires_grad}
    assert names
    assert all(adapters.IN in name or adapters.OUT in name for name in names)
