"""What stands beside the encoder: where draws go on, who is asked for, how a plan reads."""

from __future__ import annotations

import pytest
import torch

from isospace.objectives import ESimCSE
from isospace.objectives.base import View, Views
from isospace.objectives.companions import Draws, Queue, Scale, companion


def test_draws_go_on_where_they_were_saved():
    draws, resumed = Draws(0), Draws(1)
    torch.rand(3, generator=draws.generator)
    resumed.load_state_dict(draws.state_dict())
    assert torch.equal(
        torch.rand(3, generator=resumed.generator), torch.rand(3, generator=draws.generator)
    )


def test_the_wrong_companion_is_refused_by_name():
    nothing = torch.zeros(1, 2, 1)
    views = Views(nothing, nothing, {}, {"pairs": Draws(0), "scale": Scale(2.0)})
    assert companion(views, "scale", Scale).log.exp().item() == pytest.approx(2.0)
    with pytest.raises(ValueError, match=r"expected a queue 'pairs'; got \['pairs', 'scale'\]"):
        companion(views, "pairs", Queue)


def test_views_that_read_alike_are_counted_together(monkeypatch):
    plan = (View(by="a"), View(by="a", read="tokens"), View())
    monkeypatch.setattr(ESimCSE, "views", plan)
    assert ESimCSE().describe_views() == "2 dropout by the a network + 1 dropout"
