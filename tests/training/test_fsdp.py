"""Settings of Accelerate that would divide the encoder's weights are refused."""

from __future__ import annotations

import pytest

from isospace.errors import UserError
from isospace.training.train import train


@pytest.mark.parametrize("name", ["FSDP", "DEEPSPEED"])
def test_train_refuses_what_would_divide_its_weights(config, monkeypatch, name):
    monkeypatch.setenv(f"ACCELERATE_USE_{name}", "true")
    with pytest.raises(UserError, match=f"asks for {name}"):
        train(config)
    assert not config.output.exists()
