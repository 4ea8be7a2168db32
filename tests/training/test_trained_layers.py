"""Runs that train the last layers alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from loops import CONFIG, make_loop

from isospace.encoders.hooks import layers_of
from isospace.errors import UserError
from isospace.objectives import ArcCSE, DeCLUTR, DiffCSE, ESimCSE, MoCoSE, WhitenedCSE
from isospace.training.requirements import require_plain_passes

CONFIG = replace(CONFIG, trained_layers=1, learning_rate=1e-3)
SETTINGS = {
    "dropout": {},
    "clean and edited views": {"objective": ArcCSE()},
    "pairs": {"views": "pairs", "objective": WhitenedCSE(num_views=3, groups=4)},
    "accumulated": {"accumulate": 2},
    "in passes": {"pass_tokens": 60, "views": "pairs"},
}


def weights(encoder):
    return {name: value.clone() for name, value in encoder.model.state_dict().items()}


@pytest.mark.parametrize("more", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("precision", ["no", pytest.param("bf16", marks=pytest.mark.exhaustive)])
def test_only_the_last_layer_moves(toy_model, tmp_path, more, precision):
    loop = make_loop(toy_model, tmp_path, replace(CONFIG, **more), precision=precision)
    before = weights(loop.training.encoder)
    assert len(list(loop)) == 4
    after = weights(loop.training.encoder)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    last = {name for name in before if ".layer.2." in name}
    # The softmax does not see what is added to all keys.
    assert last - moved <= {"0.model.encoder.layer.2.attention.self.key.bias"}
    assert moved <= last
    trained = {id(p) for group in loop.training.optimizer.param_groups for p in group["params"]}
    lower = layers_of(loop.training.encoder.model[0].model)[:2]
    assert not trained & {id(p) for layer in lower for p in layer.parameters()}


@pytest.mark.parametrize(
    "objective", [DiffCSE(), ESimCSE(), MoCoSE(), DeCLUTR(min_span=2, max_span=4, anchors=1)]
)
def test_an_objective_that_needs_more_than_plain_passes_is_refused(objective):
    with pytest.raises(UserError, match="`trained_layers` 1: "):
        require_plain_passes(replace(CONFIG, objective=objective))
