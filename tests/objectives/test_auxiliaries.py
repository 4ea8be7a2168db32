"""What stands beside the encoder: where draws go on, who is asked for, how a plan reads."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from isospace.objectives.auxiliaries import (
    Draws,
    LastGradient,
    LateQueue,
    Network,
    Queue,
    Scale,
    costs,
    find_auxiliary,
)
from isospace.views import View, Views, describe_views
from isospace.views.edits import Reverse


def test_draws_go_on_where_they_were_saved():
    draws, resumed = Draws(0), Draws(1)
    torch.rand(3, generator=draws.generator)
    resumed.load_state_dict(draws.state_dict())
    assert torch.equal(
        torch.rand(3, generator=resumed.generator), torch.rand(3, generator=draws.generator)
    )


def test_the_wrong_auxiliary_is_refused_by_name():
    nothing = torch.zeros(1, 2, 1)
    views = Views(nothing, nothing, {}, {"pairs": Draws(0), "scale": Scale(2.0)})
    assert find_auxiliary(views.auxiliaries, "scale", Scale).log.exp().item() == pytest.approx(2.0)
    with pytest.raises(ValueError, match=r"expected a queue 'pairs'; got \['pairs', 'scale'\]"):
        find_auxiliary(views.auxiliaries, "pairs", Queue)


def test_views_that_read_alike_are_counted_together():
    first, second = (View(edit=Reverse(stream=name)) for name in ("a", "b"))
    assert describe_views((first, second, View())) == "2 dropout reversed + 1 dropout"


def test_a_network_may_follow_faster_or_slower():
    encoder = nn.Linear(1, 1, bias=False)
    asked = []
    network = Network(encoder, momentum=lambda update: asked.append(update) or 1 / update)
    with torch.no_grad():
        network.encoder.weight.fill_(0.0)
        encoder.weight.fill_(1.0)
    nothing = Views(torch.zeros(1, 2, 1), torch.zeros(1, 2, 1))
    network.after_update(encoder, nothing)
    network.after_update(encoder, nothing)
    assert asked == [2, 3]
    assert network.encoder.weight.item() == pytest.approx(0.5 / 3 + 2 / 3)


def test_costs_are_of_what_is_kept_for_training():
    """A float is 4 bytes; what is trained has a gradient and two moments beside it."""
    layer = nn.Linear(400, 250, bias=False)
    beside = {
        "frozen": Network(layer),
        "second": Network(layer, trained=True),
        "queue": Queue(1000, 50, 0),
        "noise": Draws(0),
    }
    assert costs(beside) == (
        "frozen network, 0.1 M parameters, 0.4 MB; second network, 0.1 M parameters, 1.6 MB; "
        "queue, 0.2 MB"
    )
    assert costs({"noise": Draws(0)}) == ""


def test_steps_are_signs_at_the_same_places():
    moved = LastGradient(0.5)
    batch = torch.zeros(2, 3, 1)
    assert torch.equal(moved.added(batch, 0), batch)
    moved.remember(torch.tensor([[[2.0], [-3.0]], [[0.0], [1.0]], [[-1.0], [0.0]]]))
    found = moved.added(batch, 1)
    assert found.requires_grad
    assert found.squeeze(2).tolist() == [[0.0, 0.5, 0.0], [-0.5, 0.0, 0.0]]
    assert moved.added(batch[:, :1], 0).squeeze(2).tolist() == [[0.5], [0.0]]
    again = LastGradient(0.5)
    again.load_state_dict(moved.state_dict())
    assert torch.equal(again.added(batch, 1), found)


def test_a_late_queue_gives_out_more_as_it_goes_and_forgets_at_once():
    queue = LateQueue(2, torch.zeros(5, 1), view=0)
    given = []
    for value in (1.0, 2.0, 3.0):
        given.append(queue.rows.flatten().tolist())
        queue.push(torch.tensor([[value], [value + 0.5]]))
    assert given == [[0] * 4, [0, 0, 0, 0, 0, 1.5, 1], [0, 1.5, 1, 2.5, 2]]
    assert queue.rows.flatten().tolist() == [1.0, 2.5, 2.0, 3.5, 3.0]
