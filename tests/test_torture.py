"""Trouble of some kinds, once; `make torture` makes much more of it."""

from __future__ import annotations

import random

import pytest
from torture import ON_A_DISK, SHARED, TROUBLES, trouble


def losses_of(command, troubles):
    """What was lost by one trouble of each kind."""
    tolls = list(trouble([command], dict.fromkeys(troubles, 1), random.Random(0)))
    met = {name for name in troubles if command in SHARED.get(name, (command,))}
    assert {name for name, _, _ in tolls} >= met - set(ON_A_DISK)
    assert all(toll.times for _, _, toll in tolls)
    return [loss for _, _, toll in tolls for loss in toll.losses]


@pytest.fixture(autouse=True)
def _cache(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "")  # so that it is put back


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", ["train", "encode"])
def test_nothing_is_lost_by_any_trouble(command):
    assert losses_of(command, TROUBLES) == []
