"""Further negatives: noise, mixes and hardened noise against vectors of their authors' code."""

from __future__ import annotations

import torch
from objective_views import random
from torch import nn

from isospace.objectives import DCLR
from isospace.objectives.auxiliaries import Network
from isospace.views import Views


def see(objective, *views):
    encoded = torch.stack(views)
    return Views(encoded, encoded, {}, objective.build_auxiliaries(nn.Linear(1, 1), 0))


def test_the_complementary_network_stays_as_the_start_was():
    encoder = nn.Linear(3, 3)
    frozen = DCLR().build_auxiliaries(encoder, 0)["frozen"]
    assert isinstance(frozen, Network)
    start = frozen.encoder.weight.clone()
    with torch.no_grad():
        encoder.weight.zero_()
    frozen.after_update(encoder, see(DCLR(), *random(3, 2, 3)))
    assert torch.equal(frozen.encoder.weight, start)
