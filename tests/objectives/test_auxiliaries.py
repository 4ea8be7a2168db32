"""What stands beside the encoder: where draws go on, who is asked for, how a plan reads."""

from __future__ import annotations

from torch import nn

from isospace.objectives.auxiliaries import (
    Draws,
    Network,
    Queue,
    costs,
)


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
